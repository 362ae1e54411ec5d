-- The first schema. What each table is for, and why it has this shape:
--
-- The body of a job (table job) is written once; its state (table job_state) is a small row that
-- changes often. A job list holds the jobs of one state in order, and counts them. The lists of a
-- state are numbered -(queue * 16 + code), so that a list's number alone tells the state. Lists of
-- queued jobs have positive numbers: one for each kind, and one for each kind of a full group.
-- Codes: 0 scheduled, 1 queued (of a kind), 2 processing, 3 failing, 4 completed, 5 failed,
-- 6 cancelled, 7 queued but parked (of a group and kind), 8 journal events (only counted).

-- The last number given out; never given out again, whatever is deleted. (The last number of a
-- journal batch is in `job_list`.) `trimmed/QUEUE` is where the trimmed part of a journal ends.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('job_list', 0), ('version', 0);

CREATE TABLE queue (
    num INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    settings BLOB NOT NULL,
    last_token INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE job_list (
    num INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    code INTEGER NOT NULL,
    job_group TEXT NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue, code, job_group, kind)
) STRICT;

-- List 0 counts the journal batches ever written. It is here, not in a table of its own or left to
-- AUTOINCREMENT, because every transaction changes this page anyway.
INSERT INTO job_list VALUES (0, 0, 9, '', '', 0);

CREATE TABLE job (
    num INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    job_group TEXT,
    priority INTEGER NOT NULL,
    created REAL NOT NULL,
    options BLOB,
    payload BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX job_id ON job (queue, id);

-- `at` orders a list: the rank of a queued job, the due time of a waiting one, the deadline of a
-- leased one, the end of retention of a terminal one. Jobs with the same `at` are ordered by age.
CREATE TABLE job_state (
    job INTEGER PRIMARY KEY,
    list INTEGER NOT NULL,
    at REAL NOT NULL,
    rank REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    token INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    started REAL,
    finished REAL,
    act INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    progress BLOB
) STRICT;
CREATE INDEX job_state_list ON job_state (list, at);

CREATE TABLE result (
    job INTEGER PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

-- Attempts that ended without completing, oldest first.
CREATE TABLE attempt (
    job INTEGER NOT NULL,
    n INTEGER NOT NULL,
    failure BLOB NOT NULL,
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;

-- How many leases each group has.
CREATE TABLE job_group (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    running INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    heartbeat BLOB NOT NULL,
    last_heartbeat REAL NOT NULL,
    expires REAL NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;

-- The journal, one row for each batch. The upper bits of a row's number are the queue's number, the
-- lower 40 the batch's: so the batches of a queue are found in order without an index.
CREATE TABLE journal (
    num INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    entries BLOB NOT NULL
) STRICT;

CREATE TABLE key_value (
    tenant TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

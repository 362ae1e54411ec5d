-- The first schema. What each table is for, and why it is shaped so:
--
-- A job's body (table job) is written once; where it stands (table place) is a small row that
-- moves often. A *slot* is one ordered line of jobs, counted in `n`. The slots of a state are
-- numbered -(queue * 16 + code), so that a state can be told from a slot's number alone; lines
-- of queued jobs (one for each kind, and one for each kind of a group that is full) are positive.
-- Codes: 0 scheduled, 1 queued (of a kind), 2 processing, 3 failing, 4 completed, 5 failed,
-- 6 cancelled, 7 queued but parked (of a group and kind), 8 journal events (only counted).

-- The last number given out. Never handed out twice, whatever is deleted.
-- (That of batches of the journal is kept in `slot`.)
-- Also `dropped/QUEUE`: the end of what was dropped of a queue's journal.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('slot', 0), ('version', 0);

CREATE TABLE queue (
    num INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    settings BLOB NOT NULL,
    last_token INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE slot (
    num INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    code INTEGER NOT NULL,
    grp TEXT NOT NULL,
    kind TEXT NOT NULL,
    n INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue, code, grp, kind)
) STRICT;

-- The last number of a batch of the journal (slot 0). It is here, not in a table of its own nor left
-- to AUTOINCREMENT, because every transaction changes this page anyway.
INSERT INTO slot VALUES (0, 0, 9, '', '', 0);

CREATE TABLE job (
    num INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    grp TEXT,
    priority INTEGER NOT NULL,
    created REAL NOT NULL,
    options BLOB,
    payload BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX job_id ON job (queue, id);

-- `at` orders a line: the rank of a queued job, when a waiting one is due, the deadline of a
-- leased one, the end of retention of a terminal one. Equal ones stand by age (job).
CREATE TABLE place (
    job INTEGER PRIMARY KEY,
    slot INTEGER NOT NULL,
    at REAL NOT NULL,
    rank REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    token INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    started REAL,
    finished REAL,
    act INTEGER,
    cancel INTEGER NOT NULL DEFAULT 0,
    progress BLOB
) STRICT;
CREATE INDEX place_line ON place (slot, at);

CREATE TABLE result (
    job INTEGER PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

-- The attempts that ended without completing, the oldest first.
CREATE TABLE attempt (
    job INTEGER NOT NULL,
    n INTEGER NOT NULL,
    failure BLOB NOT NULL,
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;

-- Live leases of a group.
CREATE TABLE grp (
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    running INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (
    queue INTEGER NOT NULL,
    id TEXT NOT NULL,
    beat BLOB NOT NULL,
    seen REAL NOT NULL,
    expires REAL NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;

-- The journal, one row for each batch. A row's number has the queue's in its upper bits and the
-- batch's in the lower 40: so the batches of a queue are found in order without an index.
CREATE TABLE journal (
    num INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    entries BLOB NOT NULL
) STRICT;

CREATE TABLE keyval (
    tenant TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

-- The tables, and why they are shaped as they are:
--
-- What hardly ever changes about a job is in `job`. Its current state is a small row in one other
-- table: `ready` (it can be claimed), `parked` (queued, but its group is full), `lease` (one
-- row for a whole claimed batch), or `inactive` (all other states). To change a job, lock that row.
-- Names are bytea, because text cannot contain NUL.
--
-- States: 0 scheduled, 1 queued, 2 processing, 3 failing, 4 completed, 5 failed, 6 cancelled.
-- Acts that end a lease: 0 complete, 1 fail, 2 snooze, 3 release, 4 expire, 5 cancel.

-- `compatible_from` is the oldest schema version whose code can use the tables after this
-- migration.
CREATE TABLE ackline.migration (
    num integer PRIMARY KEY,
    name text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    compatible_from integer NOT NULL
        CONSTRAINT migration_compatible_from_check CHECK (compatible_from BETWEEN 1 AND num)
);

CREATE SEQUENCE ackline.job_num;
CREATE SEQUENCE ackline.lease_num;
CREATE SEQUENCE ackline.key_version;

-- A token is base * 2^11 + the next number of this sequence. Each new connection raises the base to
-- the time in milliseconds, so that tokens also grow in a restored copy.
CREATE SEQUENCE ackline.token;

-- The era is raised when the journal comes from another server, which numbers its transactions
-- independently.
CREATE TABLE ackline.epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    base bigint NOT NULL CHECK (base >= 0),
    era integer NOT NULL CHECK (era >= 0)
);
INSERT INTO ackline.epoch (base, era) VALUES (0, 0);

-- The version changes with the settings and the kinds, so that a process can check by one number
-- whether its cache of the queue is current.
CREATE TABLE ackline.queue (
    num integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bytea NOT NULL,
    name bytea NOT NULL,
    settings bytea NOT NULL,
    version bigint NOT NULL DEFAULT 1 CHECK (version > 0),
    UNIQUE (tenant, name)
);

-- The kinds of a queue. Each has its own list of ready jobs.
CREATE TABLE ackline.queue_kind (
    num integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue integer NOT NULL REFERENCES ackline.queue,
    kind bytea NOT NULL,
    UNIQUE (queue, kind)
);

CREATE TABLE ackline.job (
    num bigint PRIMARY KEY,
    queue integer NOT NULL,
    id bytea NOT NULL,
    kind bytea NOT NULL,
    job_group bytea,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
    created double precision NOT NULL,
    options bytea,
    payload bytea NOT NULL,
    UNIQUE (queue, id)
);

-- A lane has the jobs that were added in the order of their rank, so that a claim can start after
-- the jobs claimed last: lanes 0-9 have those enqueued with that priority, 10-19 those promoted,
-- and 20 all that returned to an earlier rank. The columns after `job` describe its last lease.
CREATE TABLE ackline.ready (
    kind_id integer NOT NULL,
    lane smallint NOT NULL CHECK (lane BETWEEN 0 AND 20),
    rank double precision NOT NULL,
    job bigint NOT NULL,
    attempts integer CHECK (attempts >= 0),
    token bigint,
    worker bytea,
    started double precision,
    act smallint CHECK (act BETWEEN 0 AND 5),
    PRIMARY KEY (kind_id, lane, rank, job)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX ready_job ON ackline.ready (job);

-- Queued jobs whose group is full.
CREATE TABLE ackline.parked (
    queue integer NOT NULL,
    job_group bytea NOT NULL,
    kind_id integer NOT NULL,
    rank double precision NOT NULL,
    job bigint NOT NULL,
    attempts integer CHECK (attempts >= 0),
    token bigint,
    worker bytea,
    started double precision,
    act smallint CHECK (act BETWEEN 0 AND 5),
    PRIMARY KEY (queue, job_group, kind_id, rank, job)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX parked_job ON ackline.parked (job);

-- Jobs of one claim with one deadline; settled jobs are removed from the arrays. Rows are
-- short-lived, so they are not compressed, which would cost more than everything else done with
-- them.
CREATE TABLE ackline.lease (
    num bigint PRIMARY KEY DEFAULT nextval('ackline.lease_num'),
    token bigint NOT NULL,
    queue integer NOT NULL,
    worker bytea NOT NULL,
    started double precision NOT NULL,
    deadline double precision NOT NULL,
    jobs bigint[] NOT NULL CHECK (cardinality(jobs) > 0),
    attempts bigint[] NOT NULL
        CONSTRAINT lease_attempts_check CHECK (cardinality(attempts) = cardinality(jobs)),
    ranks double precision[] NOT NULL
        CONSTRAINT lease_ranks_check CHECK (cardinality(ranks) = cardinality(jobs)),
    cancel_requested bigint[] NOT NULL
        CONSTRAINT lease_cancel_requested_check CHECK (cancel_requested <@ jobs)
) WITH (
    fillfactor = 50, toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX lease_token ON ackline.lease (token);
CREATE INDEX lease_deadline ON ackline.lease (queue, deadline);

-- Jobs that are neither queued nor leased. `at` is when a scheduled or failing job is due, or when
-- the retention of a terminal one ends.
CREATE TABLE ackline.inactive (
    job bigint NOT NULL,
    queue integer NOT NULL,
    state smallint NOT NULL CHECK (state IN (0, 3, 4, 5, 6)),
    at double precision NOT NULL,
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    token bigint,
    worker bytea,
    started double precision,
    finished double precision
        CONSTRAINT inactive_finished_check CHECK ((finished IS NOT NULL) = (state >= 4)),
    act smallint CHECK (act BETWEEN 0 AND 5),
    result bytea CONSTRAINT inactive_result_check CHECK (result IS NULL OR state = 4)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX inactive_queue_state ON ackline.inactive (queue, state, at, job);
-- Created last: of two indexes that seem equal, as they do in an empty table, the planner takes the
-- newer one, and a cached plan that finds jobs by the other one would go on reading all of it.
ALTER TABLE ackline.inactive ADD PRIMARY KEY (job);

-- Attempts that failed, the oldest first.
CREATE TABLE ackline.attempt (
    job bigint NOT NULL,
    n integer NOT NULL,
    failure bytea NOT NULL,
    PRIMARY KEY (job, n)
);

-- The last progress that a handler reported, valid only for the lease of this token.
CREATE TABLE ackline.progress (
    job bigint PRIMARY KEY,
    token bigint NOT NULL,
    data bytea NOT NULL
);

-- How many jobs of a group are leased.
CREATE TABLE ackline.job_group (
    queue integer NOT NULL,
    name bytea NOT NULL,
    running integer NOT NULL CHECK (running >= 0),
    PRIMARY KEY (queue, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE ackline.worker (
    queue integer NOT NULL,
    id bytea NOT NULL,
    heartbeat bytea NOT NULL,
    last_heartbeat double precision NOT NULL,
    expires double precision NOT NULL,
    PRIMARY KEY (queue, id)
) WITH (fillfactor = 50);

-- One row for each transaction and queue, written last, when all its rows are locked.
--
-- `moment` is above the id of its own transaction and of every one that had started to write
-- before. So a transaction that has seen the work of another one has no lower moment, and with
-- `num` it sorts after it. A row that a reader cannot see yet has a moment above the oldest running
-- transaction: a reader that stops there, in the order of (era, moment, num), skips no late commit.
CREATE SEQUENCE ackline.journal_num;
CREATE TABLE ackline.journal (
    era integer NOT NULL,
    moment xid8 NOT NULL,
    num bigint NOT NULL DEFAULT nextval('ackline.journal_num'),
    queue integer NOT NULL,
    at double precision NOT NULL,
    size integer NOT NULL CHECK (size > 0),
    entries bytea NOT NULL,
    PRIMARY KEY (era, moment, num)
);
CREATE INDEX journal_queue ON ackline.journal (queue, era, moment, num);

-- The last batch that was trimmed from a queue's journal.
CREATE TABLE ackline.trimmed (
    queue integer PRIMARY KEY,
    era integer NOT NULL,
    moment xid8 NOT NULL,
    num bigint NOT NULL,
    size integer NOT NULL
);

-- Changes of the number of jobs by state, and of events. Rows are appended, so that no transaction
-- waits for a counter, and compacted from time to time.
CREATE TABLE ackline.count_change (
    queue integer NOT NULL,
    num bigint GENERATED ALWAYS AS IDENTITY,
    states bigint[] NOT NULL CHECK (cardinality(states) = 7),
    events bigint NOT NULL,
    PRIMARY KEY (queue, num)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE ackline.key_value (
    tenant bytea NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

-- Which process waits for which wake-ups, and until when. It need not survive a crash.
CREATE UNLOGGED TABLE ackline.listener (
    queue_hash bytea NOT NULL,
    topic smallint NOT NULL,
    process bytea NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (queue_hash, topic, process)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Inserts jobs that are believed to be new, all or none. It is a function, so that an id that
-- exists rolls everything back without an error: the client has already sent its COMMIT, and the
-- server would log the error. `append_journal` checks `ackline_transaction.inserted`.
--
-- The arrays are unnested in SELECT; in FROM, each would be copied first. Jobs are numbered in the
-- given order, but inserted in the order of their ids, so that two transactions with the same ids
-- wait for each other in the same order.
CREATE FUNCTION ackline.insert_new(
    in_queue integer, in_version bigint, clock double precision, ageing double precision,
    ids bytea[], kinds bytea[], groups bytea[], priorities bigint[],
    delays double precision[], options_of bytea[], payloads bytea[], kind_ids bigint[]
) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
    inserted_at double precision;
    setting text;
BEGIN
    WITH moment AS MATERIALIZED (
        SELECT coalesce(clock, extract(epoch FROM clock_timestamp())::float8) AS now
        FROM ackline.queue q WHERE q.num = in_queue AND q.version = in_version
    ), given AS MATERIALIZED (
        SELECT nextval('ackline.job_num') AS num, m.now, g.*
        FROM moment m, (
            SELECT unnest(ids) AS id, unnest(kinds) AS kind, unnest(groups) AS job_group,
                   unnest(priorities) AS priority, unnest(delays) AS delay,
                   unnest(options_of) AS options, unnest(payloads) AS payload,
                   unnest(kind_ids) AS kind_id
        ) g
    ), bodies AS (
        INSERT INTO ackline.job
            (num, queue, id, kind, job_group, priority, created, options, payload)
        SELECT g.num, in_queue, g.id, g.kind, g.job_group, g.priority, g.now, g.options, g.payload
        FROM given g ORDER BY g.id
    ), queued AS (
        INSERT INTO ackline.ready (kind_id, lane, rank, job)
        SELECT g.kind_id, g.priority, g.now - g.priority * ageing, g.num FROM given g
        WHERE coalesce(g.delay, 0) <= 0
    ), later AS (
        INSERT INTO ackline.inactive (job, queue, state, at)
        SELECT g.num, in_queue, 0, g.now + g.delay FROM given g WHERE g.delay > 0
    )
    SELECT m.now, set_config('ackline_transaction.inserted', 'yes', true) INTO inserted_at, setting
    FROM moment m;
    RETURN inserted_at;
EXCEPTION WHEN unique_violation THEN
    RETURN NULL;
END
$$;

-- Encode a text, and a number that is not negative, as msgpack, the format of journal entries.
CREATE FUNCTION ackline.msgpack_text(utf8 bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(utf8) < 32 THEN set_byte('\x00', 0, 160 + length(utf8))
                WHEN length(utf8) < 256 THEN set_byte('\xd900', 1, length(utf8))
                ELSE '\xdb' || int4send(length(utf8)) END || utf8
$$;
CREATE FUNCTION ackline.msgpack_uint(number bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN number < 128 THEN set_byte('\x00', 0, number::int)
                ELSE '\xce' || int4send(number::int) END
$$;

-- The first schema. What each table is for, and why it is shaped so:
--
-- A job's body (job) is written once; it stands in exactly one home, a small row elsewhere:
-- ready (it can be claimed), parked (queued, but its group is full), lease (one row for each
-- claimed batch, so that a batch costs one row and not a hundred), or rest (everything else).
-- Whoever changes a job holds the lock of its home. Names are bytes, for text has no NUL.
--
-- States: 0 scheduled, 1 queued, 2 processing, 3 failing, 4 completed, 5 failed, 6 cancelled.
-- Acts that ended a lease: 0 complete, 1 fail, 2 snooze, 3 release, 4 expire, 5 cancel.

-- `compatible_from` is the oldest schema whose code can use the tables after this step.
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

-- A token is base * 2^11 + the next of this sequence. The base is raised when somebody connects,
-- to the milliseconds of the clock, so that tokens grow also in a copy that was restored.
CREATE SEQUENCE ackline.token;

-- The era is raised when the journal comes from another server, whose transactions were numbered
-- otherwise.
CREATE TABLE ackline.epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    base bigint NOT NULL CHECK (base >= 0),
    era integer NOT NULL CHECK (era >= 0)
);
INSERT INTO ackline.epoch (base, era) VALUES (0, 0);

-- The version changes with the settings and with the lines, so that what a process remembers of
-- a queue can be checked by one number.
CREATE TABLE ackline.queue (
    num integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bytea NOT NULL,
    name bytea NOT NULL,
    settings bytea NOT NULL,
    version bigint NOT NULL DEFAULT 1 CHECK (version > 0),
    UNIQUE (tenant, name)
);

-- A line of queued jobs: one for each kind of a queue.
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

-- A lane holds jobs that came in the order of their rank, so that a claimer can begin where it
-- left off: 0-9 those enqueued with this priority, 10-19 those promoted, 20 all that came back
-- to an old place. What follows `job` tells of an earlier lease.
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

-- Queued jobs that a full group holds back.
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

-- Jobs of one claim with one deadline; those settled leave the arrays. It lives too shortly to be
-- worth compressing, which would cost more than all else that is done to it.
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
    cancel_requested bigint[] NOT NULL CONSTRAINT lease_cancel_requested_check CHECK (cancel_requested <@ jobs)
) WITH (
    fillfactor = 50, toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX lease_token ON ackline.lease (token);
CREATE INDEX lease_deadline ON ackline.lease (queue, deadline);

-- Jobs that are neither queued nor leased. `at` is when a waiting one is due, or when the
-- retention of a terminal one ends.
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
-- Made last: where two indexes seem alike, as in a table that is still empty, the planner takes
-- the younger, and a plan that finds a job by the other would read all of it for ever.
ALTER TABLE ackline.inactive ADD PRIMARY KEY (job);

-- The attempts that ended without completing, the oldest first.
CREATE TABLE ackline.attempt (
    job bigint NOT NULL,
    n integer NOT NULL,
    failure bytea NOT NULL,
    PRIMARY KEY (job, n)
);

-- How far a job said it was, good for the lease of this token only.
CREATE TABLE ackline.progress (
    job bigint PRIMARY KEY,
    token bigint NOT NULL,
    data bytea NOT NULL
);

-- Live leases of a group.
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

-- One row for each transaction and queue, written last, when all that it tells of is locked.
--
-- `now` is above its own transaction and every one that had begun to write before it. So a
-- transaction that saw another's work has no lower one, and with `num` it comes behind. And a
-- row that a reader cannot see yet has a moment above the oldest transaction that still runs:
-- who reads up to that one, in the order of (era, moment, num), skips no late committer.
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

-- The last batch that was dropped of a queue's journal.
CREATE TABLE ackline.trimmed (
    queue integer PRIMARY KEY,
    era integer NOT NULL,
    moment xid8 NOT NULL,
    num bigint NOT NULL,
    size integer NOT NULL
);

-- How the numbers of jobs by state, and of journal events, have changed: appended, so that nobody
-- waits for a counter, and folded now and then.
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

-- Who waits for news of what, until when. It need not survive a crash.
CREATE UNLOGGED TABLE ackline.listener (
    queue_hash bytea NOT NULL,
    topic smallint NOT NULL,
    process bytea NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (queue_hash, topic, process)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Inserts jobs that are believed to be new, all or none. It is a function so that an id that is
-- known after all undoes everything without an error: the client has sent its COMMIT already, and
-- the server would log the error. The journal's row, which is written apart, asks for
-- `ackline_transaction.added`.
--
-- The arrays are unnested side by side: in FROM, each of them would be copied first. Jobs are
-- numbered in the given order, but inserted in the order of their ids, so that two transactions
-- with the same ids wait for each other in the same order.
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
        INSERT INTO ackline.job (num, queue, id, kind, job_group, priority, created, options, payload)
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

-- As msgpack, in which the journal keeps its entries: a text, and a number that is not negative.
CREATE FUNCTION ackline.msgpack_text(utf8 bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(utf8) < 32 THEN set_byte('\x00', 0, 160 + length(utf8))
                WHEN length(utf8) < 256 THEN set_byte('\xd900', 1, length(utf8))
                ELSE '\xdb' || int4send(length(utf8)) END || utf8
$$;
CREATE FUNCTION ackline.msgpack_uint(number bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN number < 128 THEN set_byte('\x00', 0, number::int)
                ELSE '\xce' || int4send(number::int) END
$$;

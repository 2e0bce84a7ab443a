-- Executed in one transaction under an advisory lock, so that processes that start together create the tables once.
SELECT pg_advisory_xact_lock(hashtextextended('graph_cluster.schema', 0));

CREATE SCHEMA IF NOT EXISTS graph_cluster;

CREATE TABLE IF NOT EXISTS graph_cluster.run (
    -- Order in which the runs of a thread execute.
    number bigint GENERATED ALWAYS AS IDENTITY,
    id text PRIMARY KEY,
    scheduler text NOT NULL,
    graph text NOT NULL,
    thread text NOT NULL,
    -- The request as JSON text, compared when a run is started again with the same id.
    request text NOT NULL,
    status text NOT NULL DEFAULT 'queued',
    -- Number of times that the run was resumed, and the answers of the last resume as JSON text.
    leg integer NOT NULL DEFAULT 0,
    answers text NOT NULL DEFAULT '{}',
    -- Values, interrupts and error message of the last leg, as JSON text.
    outcome text,
    cancel boolean NOT NULL DEFAULT false,
    -- Incremented by each claim. A worker can write to the run only while its own value is the current one.
    fence bigint NOT NULL DEFAULT 0,
    -- Number of claims since the run was last queued. All but the last one ended without a result.
    attempts integer NOT NULL DEFAULT 0,
    worker text,
    lease_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- At most one run per thread executes at a time.
CREATE UNIQUE INDEX IF NOT EXISTS run_executing ON graph_cluster.run (thread) WHERE status = 'running';
CREATE INDEX IF NOT EXISTS run_queued ON graph_cluster.run (thread, number) WHERE status = 'queued';

CREATE TABLE IF NOT EXISTS graph_cluster.event (
    run text NOT NULL REFERENCES graph_cluster.run (id) ON DELETE CASCADE,
    seq bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE IF NOT EXISTS graph_cluster.worker (
    id text PRIMARY KEY,
    graphs text[] NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    seen_at timestamptz NOT NULL DEFAULT now()
);

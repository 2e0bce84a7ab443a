CREATE SCHEMA IF NOT EXISTS graph_server;

CREATE TABLE IF NOT EXISTS graph_server.document (
    -- Order in which documents are listed.
    number bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    id text NOT NULL,
    parent text,
    status text,
    -- The object as JSON text.
    data text NOT NULL,
    owner text,
    PRIMARY KEY (kind, id)
);

CREATE INDEX IF NOT EXISTS document_owner ON graph_server.document (kind, owner);
CREATE INDEX IF NOT EXISTS document_parent ON graph_server.document (kind, parent);
CREATE INDEX IF NOT EXISTS document_status ON graph_server.document (kind, status);

-- The active runs.
CREATE TABLE IF NOT EXISTS graph_server.queue (
    number bigint GENERATED ALWAYS AS IDENTITY,
    run text PRIMARY KEY,
    thread text NOT NULL,
    owner text,
    -- The runs of a thread execute in the order of their start times and numbers.
    start_at timestamptz NOT NULL,
    -- The replica that executes or ends the run, and the time at which its lease expires.
    holder text,
    lease_until timestamptz,
    -- Incremented by each claim. A replica can write to the run only while its own value is the current one.
    fence bigint NOT NULL DEFAULT 0,
    -- Whether the run is ended without being executed. The next run of the thread need not wait for it.
    ending boolean NOT NULL DEFAULT false,
    -- Requested cancellation: 'interrupt' or 'rollback', and its reason.
    cancel_action text,
    cancel_reason text
);

-- At most one run per thread executes at a time.
CREATE UNIQUE INDEX IF NOT EXISTS queue_executing ON graph_server.queue (thread)
    WHERE holder IS NOT NULL AND NOT ending;
CREATE INDEX IF NOT EXISTS queue_order ON graph_server.queue (thread, start_at, number);

-- Threads that are being deleted or pruned.
CREATE TABLE IF NOT EXISTS graph_server.reservation (
    thread text PRIMARY KEY,
    lease_until timestamptz NOT NULL
);

-- Locks on the metadata of threads.
CREATE TABLE IF NOT EXISTS graph_server.metadata_lock (
    id text PRIMARY KEY,
    thread text NOT NULL,
    lease_until timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS metadata_lock_thread ON graph_server.metadata_lock (thread);

-- Events of runs. The last row of a run that has ended contains its output instead of an event.
CREATE TABLE IF NOT EXISTS graph_server.event (
    run text NOT NULL,
    seq bigint NOT NULL,
    thread text NOT NULL,
    body text,
    output text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, seq)
);

CREATE INDEX IF NOT EXISTS event_thread ON graph_server.event (thread, seq);
CREATE INDEX IF NOT EXISTS event_end ON graph_server.event (created_at) WHERE output IS NOT NULL;

-- Must equal the version in `connection.rs`. Increment both with every change of this file.
COMMENT ON SCHEMA graph_server IS 'version 2';

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
CREATE INDEX IF NOT EXISTS run_active ON graph_cluster.run (number) WHERE status IN ('queued', 'running');

-- Version of the graph that the run stays on. Null until the first worker claims the run.
ALTER TABLE graph_cluster.run ADD COLUMN IF NOT EXISTS version text;
-- Runs that were claimed before this column existed executed a graph without a version.
UPDATE graph_cluster.run SET version = '' WHERE version IS NULL AND fence > 0;
-- Tenant on whose behalf the run executes, and the caller's trace context.
ALTER TABLE graph_cluster.run ADD COLUMN IF NOT EXISTS tenant text;
ALTER TABLE graph_cluster.run ADD COLUMN IF NOT EXISTS trace_parent text;
-- Time before which a queued run does not start.
ALTER TABLE graph_cluster.run ADD COLUMN IF NOT EXISTS due_at timestamptz NOT NULL DEFAULT '-infinity';
CREATE INDEX IF NOT EXISTS run_of_tenant ON graph_cluster.run (tenant) WHERE status = 'running' AND tenant IS NOT NULL;

-- Tenants whose number of running runs is limited.
CREATE TABLE IF NOT EXISTS graph_cluster.tenant (
    name text PRIMARY KEY,
    max_running bigint NOT NULL
);

CREATE OR REPLACE FUNCTION graph_cluster.is_tenant_busy(tenant text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM graph_cluster.tenant t WHERE t.name = is_tenant_busy.tenant AND t.max_running <= (
            SELECT count(*) FROM graph_cluster.run r WHERE r.tenant = t.name AND r.status = 'running'))
$$;

-- Enforces the limit. Claims of a tenant's runs wait for each other at the tenant's row, so each of them counts all others.
CREATE OR REPLACE FUNCTION graph_cluster.check_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM graph_cluster.tenant t WHERE t.name = NEW.tenant FOR UPDATE;
    IF graph_cluster.is_tenant_busy(NEW.tenant) THEN
        RAISE EXCEPTION 'tenant % has reached its limit', NEW.tenant USING ERRCODE = 'GC001';
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_tenant ON graph_cluster.run;
CREATE TRIGGER check_tenant BEFORE UPDATE OF status ON graph_cluster.run FOR EACH ROW
    WHEN (NEW.tenant IS NOT NULL AND NEW.status = 'running' AND OLD.status <> 'running')
    EXECUTE FUNCTION graph_cluster.check_tenant();

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

-- Pools of the worker, and nodes that are bound to them.
ALTER TABLE graph_cluster.worker ADD COLUMN IF NOT EXISTS pools text[] NOT NULL DEFAULT '{}';
-- Versions of runs that the worker claims: the name of the graph for runs that have not started, else `graph@version`.
ALTER TABLE graph_cluster.worker ADD COLUMN IF NOT EXISTS served text[] NOT NULL DEFAULT '{}';

-- Tasks of the current step of a run that any worker may execute. They are deleted in a later step and when the leg ends.
CREATE TABLE IF NOT EXISTS graph_cluster.task (
    -- Order in which tasks are claimed.
    number bigint GENERATED ALWAYS AS IDENTITY,
    run text NOT NULL REFERENCES graph_cluster.run (id) ON DELETE CASCADE,
    id text NOT NULL,
    -- The graph and its version.
    graph text NOT NULL,
    -- The pool that the node is bound to, if any.
    pool text,
    step bigint NOT NULL,
    -- Input of the task, as JSON text.
    start text NOT NULL,
    -- Result of the task, as JSON text, once it has ended.
    outcome text,
    -- Starts above the fences of all earlier tasks of the run, and is incremented by each claim. A worker can write to the
    -- task only while its own value is the current one.
    fence bigint NOT NULL DEFAULT 0,
    -- Number of claims since the task was last queued. All but the last one ended without a result.
    attempts integer NOT NULL DEFAULT 0,
    worker text,
    lease_until timestamptz,
    PRIMARY KEY (run, id)
);

CREATE INDEX IF NOT EXISTS task_open ON graph_cluster.task (number) WHERE outcome IS NULL;

-- Events and results of external calls of a task, in order, until the worker of the run has taken them over.
CREATE TABLE IF NOT EXISTS graph_cluster.task_message (
    run text NOT NULL,
    task text NOT NULL,
    seq bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run, task, seq),
    FOREIGN KEY (run, task) REFERENCES graph_cluster.task (run, id) ON DELETE CASCADE
);

-- Values that the workers of a run share. A client may store them before it starts the run.
CREATE TABLE IF NOT EXISTS graph_cluster.run_value (
    run text NOT NULL,
    name text NOT NULL,
    -- Incremented by each update.
    version bigint NOT NULL,
    -- The value as JSON text.
    value text NOT NULL,
    PRIMARY KEY (run, name)
);

CREATE OR REPLACE FUNCTION graph_cluster.delete_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM graph_cluster.run_value v WHERE v.run = OLD.id;
    RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS delete_values ON graph_cluster.run;
CREATE TRIGGER delete_values AFTER DELETE ON graph_cluster.run FOR EACH ROW
    EXECUTE FUNCTION graph_cluster.delete_values();

-- Must equal the version in `database.rs`. Increment both with every change of this file.
COMMENT ON SCHEMA graph_cluster IS 'version 5';

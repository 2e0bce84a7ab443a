-- The graphs of a thread. The empty name is the thread's root graph. Names are bytes, because text cannot contain a
-- NUL, and bytes sort in the same order as our names.
CREATE TABLE @.namespace (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread bytea NOT NULL,
    name bytea NOT NULL,
    UNIQUE (thread, name)
);

-- The newest link of `fields[n]` is `links[n]`.
CREATE TABLE @.checkpoint (
    namespace bigint NOT NULL,
    id bytea NOT NULL,
    made_at bigint NOT NULL,
    run bytea NOT NULL,
    fields bytea[] NOT NULL,
    links bigint[] NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (namespace, id)
);

-- Changes of fields. Link ids are never reused.
CREATE TABLE @.link (
    namespace bigint NOT NULL,
    id bigint NOT NULL,
    prev bigint,
    depth integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (namespace, id)
);

-- Link ids, allocated in blocks, so that writers rarely need to fetch one.
CREATE SEQUENCE @.link_block INCREMENT BY 1024;

-- Events of the tasks in the step that follows a checkpoint, in the order of `seq`.
CREATE TABLE @.record (
    namespace bigint NOT NULL,
    checkpoint bytea NOT NULL,
    task bytea NOT NULL,
    slot bytea NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    body bytea NOT NULL,
    PRIMARY KEY (namespace, checkpoint, task, slot)
);

-- Leased threads. Each lease has a new token, so that a stale writer is recognized.
CREATE TABLE @.lease (
    thread bytea PRIMARY KEY,
    token bigint NOT NULL
);

-- The advisory lock id of a thread, for one kind of lock.
CREATE FUNCTION @.lock_of(_kind text, _thread bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended('@.' || _kind || encode(_thread, 'hex'), 0)
$$;

-- Fails unless each statement sees everything committed before it: otherwise, checks under a lock would see data
-- from before the lock was acquired.
CREATE FUNCTION @.need_read_committed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'graph-store needs the isolation level READ COMMITTED, and this is %; set '
            'default_transaction_isolation to it for this role, database or connection',
            upper(current_setting('transaction_isolation'));
    END IF;
END
$$;

-- The id of a namespace; its row is inserted if it is missing.
CREATE FUNCTION @.namespace_id(_thread bytea, _name bytea) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _id bigint;
BEGIN
    LOOP
        SELECT n.id INTO _id FROM @.namespace n WHERE n.thread = _thread AND n.name = _name;
        EXIT WHEN FOUND;
        INSERT INTO @.namespace (thread, name) VALUES (_thread, _name)
        ON CONFLICT DO NOTHING RETURNING id INTO _id;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN _id;
END
$$;

-- Stores writes to one namespace, or returns why not: consecutive checkpoints with all their new links, and task
-- records.
--
-- `_head` and `_base` belong to the first checkpoint; `_links` contains one id per field of `_fields` for each
-- checkpoint. The namespace's row is locked first. Each statement after that sees everything committed before the
-- lock was acquired, so the second of two concurrent writers sees the changes of the first.
--
-- Every step calls this function. Therefore each statement does as much as possible, single rows take a fast path,
-- and plans are generic: arrays of another length do not need another plan.
CREATE FUNCTION @.write(
    _thread bytea, _name bytea, _token bigint,
    _head bytea, _base bytea, _base_links bigint[],
    _ids bytea[], _made_at bigint[], _runs bytea[], _bodies bytea[], _fields bytea[], _links bigint[],
    _new bigint[], _prevs bigint[], _depths integer[], _changes bytea[],
    _at bytea[], _tasks bytea[], _slots bytea[], _records bytea[], _keep bytea[]
) RETURNS text
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    _count integer := cardinality(_ids);
    _width integer := cardinality(_fields);
    _namespace bigint;
    _fence text;
    _newest bytea;
    _newest_links bigint[];
    _held boolean;
    _known bigint := 0;
    _foreign bigint := 0;
BEGIN
    -- Checked inline first, because a function call takes as long as storing a row.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM @.need_read_committed();
    END IF;
    IF _count = 0 THEN
        IF _token IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock_shared(@.lock_of('write', _thread));
            IF NOT EXISTS (SELECT FROM @.lease l WHERE l.thread = _thread AND l.token = _token) THEN
                RETURN 'lease';
            END IF;
        END IF;
        _namespace := @.namespace_id(_thread, _name);
    ELSE
        LOOP
            -- A session that takes over the thread waits for this lock until we have committed.
            SELECT n.id, CASE WHEN _token IS NOT NULL THEN
                pg_advisory_xact_lock_shared(@.lock_of('write', _thread))::text END
            INTO _namespace, _fence FROM @.namespace n
            WHERE n.thread = _thread AND n.name = _name FOR NO KEY UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO @.namespace (thread, name) VALUES (_thread, _name)
            ON CONFLICT DO NOTHING RETURNING id, CASE WHEN _token IS NOT NULL THEN
                pg_advisory_xact_lock_shared(@.lock_of('write', _thread))::text END
            INTO _namespace, _fence;
            EXIT WHEN FOUND;
        END LOOP;
        SELECT c.id, c.links,
            EXISTS (SELECT FROM @.lease l WHERE l.thread = _thread AND l.token = _token)
        INTO _newest, _newest_links, _held FROM @.checkpoint c
        WHERE c.namespace = _namespace ORDER BY c.id DESC LIMIT 1;
        IF NOT FOUND THEN
            _held := EXISTS (SELECT FROM @.lease l WHERE l.thread = _thread AND l.token = _token);
        END IF;
        IF _token IS NOT NULL AND NOT _held THEN
            RETURN 'lease';
        END IF;
        IF _newest >= _ids[1] THEN
            SELECT count(*), count(*) FILTER (WHERE c.run <> u.run) INTO _known, _foreign
            FROM unnest(_ids, _runs) AS u (id, run)
            JOIN @.checkpoint c ON c.namespace = _namespace AND c.id = u.id;
            IF _foreign > 0 THEN
                RETURN 'head';
            END IF;
            IF _known BETWEEN 1 AND _count - 1 THEN
                RETURN 'mixed';
            END IF;
        END IF;
    END IF;
    IF _count > 0 AND _known = 0 THEN
        IF _newest IS DISTINCT FROM _head THEN
            RETURN 'head';
        END IF;
        IF _ids[1] < _newest THEN
            RETURN 'older';
        END IF;
        IF _base <> _newest THEN
            SELECT c.links INTO _newest_links FROM @.checkpoint c
            WHERE c.namespace = _namespace AND c.id = _base;
            IF NOT FOUND THEN
                RETURN 'base';
            END IF;
        ELSIF _base IS NOT NULL AND _newest IS NULL THEN
            RETURN 'base';
        END IF;
        -- A checkpoint with the same id may have been stored again, after the thread was deleted or copied to.
        IF _base IS NOT NULL AND _newest_links IS DISTINCT FROM _base_links THEN
            RETURN 'stale';
        END IF;
        INSERT INTO @.link (namespace, id, prev, depth, body)
        SELECT _namespace, unnest(_new), unnest(_prevs), unnest(_depths), unnest(_changes);
        IF _count = 1 THEN
            INSERT INTO @.checkpoint (namespace, id, made_at, run, fields, links, body)
            VALUES (_namespace, _ids[1], _made_at[1], _runs[1], _fields, _links, _bodies[1]);
        ELSE
            INSERT INTO @.checkpoint (namespace, id, made_at, run, fields, links, body)
            SELECT _namespace, u.id, u.made_at, u.run, _fields,
                _links[(u.n - 1) * _width + 1 : u.n * _width], u.body
            FROM (
                SELECT unnest(_ids) AS id, unnest(_made_at) AS made_at, unnest(_runs) AS run,
                    unnest(_bodies) AS body, generate_subscripts(_ids, 1) AS n
            ) AS u;
        END IF;
    END IF;
    -- Each slot of a task occurs once; existing records in slots of `_keep` are not replaced.
    IF cardinality(_tasks) = 1 THEN
        INSERT INTO @.record (namespace, checkpoint, task, slot, body)
        VALUES (_namespace, _at[1], _tasks[1], _slots[1], _records[1])
        ON CONFLICT ON CONSTRAINT record_pkey DO UPDATE SET body = excluded.body
        WHERE NOT excluded.slot = ANY (_keep);
    ELSIF cardinality(_tasks) > 1 THEN
        INSERT INTO @.record (namespace, checkpoint, task, slot, body)
        SELECT _namespace, u.checkpoint, u.task, u.slot, u.body
        FROM unnest(_at, _tasks, _slots, _records) WITH ORDINALITY
            AS u (checkpoint, task, slot, body, n)
        ORDER BY u.n
        ON CONFLICT ON CONSTRAINT record_pkey DO UPDATE SET body = excluded.body
        WHERE NOT excluded.slot = ANY (_keep);
    END IF;
    RETURN CASE WHEN _known = 0 THEN 'stored' ELSE 'known' END;
END
$$;

-- Removes checkpoints and their task records; returns the number of checkpoints.
CREATE FUNCTION @.remove(_namespace bigint, _ids bytea[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _removed bigint;
BEGIN
    PERFORM @.need_read_committed();
    -- No checkpoint can build on one that is being removed, because the links that only it needs are swept
    -- afterwards.
    PERFORM FROM @.namespace n WHERE n.id = _namespace FOR NO KEY UPDATE;
    DELETE FROM @.checkpoint c WHERE c.namespace = _namespace AND c.id = ANY (_ids);
    GET DIAGNOSTICS _removed = ROW_COUNT;
    DELETE FROM @.record r WHERE r.namespace = _namespace AND r.checkpoint = ANY (_ids);
    RETURN _removed;
END
$$;

-- Removes checkpoints, except one that has become the newest.
CREATE FUNCTION @.prune(_namespace bigint, _ids bytea[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _newest bytea;
BEGIN
    PERFORM @.need_read_committed();
    PERFORM FROM @.namespace n WHERE n.id = _namespace FOR NO KEY UPDATE;
    SELECT c.id INTO _newest FROM @.checkpoint c
    WHERE c.namespace = _namespace ORDER BY c.id DESC LIMIT 1;
    RETURN @.remove(_namespace, ARRAY(SELECT u.id FROM unnest(_ids) AS u (id) WHERE u.id < _newest));
END
$$;

-- Removes a namespace, unless its newest checkpoint has changed; returns the number of its checkpoints.
CREATE FUNCTION @.delete_namespace(_namespace bigint, _newest bytea) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    _found bytea;
    _removed bigint;
BEGIN
    PERFORM @.need_read_committed();
    PERFORM FROM @.namespace n WHERE n.id = _namespace FOR UPDATE;
    SELECT c.id INTO _found FROM @.checkpoint c
    WHERE c.namespace = _namespace ORDER BY c.id DESC LIMIT 1;
    IF _found IS DISTINCT FROM _newest THEN
        RETURN 0;
    END IF;
    DELETE FROM @.checkpoint c WHERE c.namespace = _namespace;
    GET DIAGNOSTICS _removed = ROW_COUNT;
    DELETE FROM @.record r WHERE r.namespace = _namespace;
    DELETE FROM @.link l WHERE l.namespace = _namespace;
    DELETE FROM @.namespace n WHERE n.id = _namespace;
    RETURN _removed;
END
$$;

-- Deletes a thread.
CREATE FUNCTION @.delete_thread(_thread bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _namespaces bigint[];
BEGIN
    SELECT array_agg(locked.id) INTO _namespaces FROM (
        SELECT n.id FROM @.namespace n WHERE n.thread = _thread ORDER BY n.name FOR UPDATE
    ) AS locked;
    DELETE FROM @.checkpoint c WHERE c.namespace = ANY (_namespaces);
    DELETE FROM @.record r WHERE r.namespace = ANY (_namespaces);
    DELETE FROM @.link l WHERE l.namespace = ANY (_namespaces);
    DELETE FROM @.namespace n WHERE n.id = ANY (_namespaces);
END
$$;

-- Copies a thread to a name that is not in use, or returns why not.
CREATE FUNCTION @.copy_thread(_from bytea, _to bytea) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    _copied bigint;
BEGIN
    PERFORM @.need_read_committed();
    -- If two sessions copy to the same name, the second waits here and then sees the result of the first.
    PERFORM pg_advisory_xact_lock(@.lock_of('copy', _to));
    PERFORM FROM @.namespace n WHERE n.thread = _to ORDER BY n.name FOR UPDATE;
    PERFORM FROM @.namespace n JOIN @.checkpoint c ON c.namespace = n.id WHERE n.thread = _to LIMIT 1;
    IF FOUND THEN
        RETURN 'exists';
    END IF;
    PERFORM FROM @.namespace n JOIN @.checkpoint c ON c.namespace = n.id WHERE n.thread = _from LIMIT 1;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    -- The target may have records of checkpoints that were never stored. A checkpoint that is stored concurrently
    -- is kept, and the copy fails.
    DELETE FROM @.record r USING @.namespace n WHERE r.namespace = n.id AND n.thread = _to
        AND NOT EXISTS (SELECT FROM @.checkpoint c WHERE c.namespace = n.id);
    DELETE FROM @.namespace n WHERE n.thread = _to
        AND NOT EXISTS (SELECT FROM @.checkpoint c WHERE c.namespace = n.id);
    -- A single statement, which sees one snapshot of the thread, whatever is written concurrently.
    WITH made AS (
        INSERT INTO @.namespace (thread, name)
        SELECT _to, n.name FROM @.namespace n WHERE n.thread = _from ORDER BY n.id
        RETURNING id, name
    ), pair AS (
        SELECT n.id AS source, made.id AS target
        FROM made JOIN @.namespace n ON n.thread = _from AND n.name = made.name
    ), checkpoints AS (
        INSERT INTO @.checkpoint (namespace, id, made_at, run, fields, links, body)
        SELECT pair.target, c.id, c.made_at, c.run, c.fields, c.links, c.body
        FROM pair JOIN @.checkpoint c ON c.namespace = pair.source
        RETURNING 1
    ), links AS (
        -- Link ids can stay the same, because they must be unique only within a namespace.
        INSERT INTO @.link (namespace, id, prev, depth, body)
        SELECT pair.target, l.id, l.prev, l.depth, l.body
        FROM pair JOIN @.link l ON l.namespace = pair.source
    ), records AS (
        INSERT INTO @.record (namespace, checkpoint, task, slot, body)
        SELECT pair.target, r.checkpoint, r.task, r.slot, r.body
        FROM pair JOIN @.record r ON r.namespace = pair.source
        ORDER BY r.seq
    )
    SELECT count(*) INTO _copied FROM checkpoints;
    IF _copied = 0 THEN
        -- The thread was deleted concurrently.
        PERFORM @.delete_thread(_to);
        RETURN 'unknown';
    END IF;
    RETURN 'copied';
END
$$;

-- Leases a thread for this session, unless another session holds it.
CREATE FUNCTION @.take(_thread bytea, _token bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @.need_read_committed();
    IF NOT pg_try_advisory_lock(@.lock_of('lease', _thread)) THEN
        RETURN false;
    END IF;
    -- Waits until writes of the previous holder that are in progress are committed.
    PERFORM pg_advisory_xact_lock(@.lock_of('write', _thread));
    INSERT INTO @.lease (thread, token) VALUES (_thread, _token)
    ON CONFLICT (thread) DO UPDATE SET token = excluded.token;
    RETURN true;
END
$$;

-- Leases a thread again after its session was lost, unless another session has taken it over.
CREATE FUNCTION @.take_again(_thread bytea, _token bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_lock(@.lock_of('lease', _thread)) THEN
        RETURN false;
    END IF;
    PERFORM FROM @.lease l WHERE l.thread = _thread AND l.token = _token;
    IF NOT FOUND THEN
        PERFORM pg_advisory_unlock(@.lock_of('lease', _thread));
        RETURN false;
    END IF;
    RETURN true;
END
$$;

-- Releases a thread.
CREATE FUNCTION @.give_back(_thread bytea, _token bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- Does not wait for the disk: a row that reappears after a crash has no effect without its lock.
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM @.lease l WHERE l.thread = _thread AND l.token = _token;
    PERFORM pg_advisory_unlock(@.lock_of('lease', _thread));
END
$$;

-- Long-term memory. A namespace consists of its labels, each terminated by a zero byte, so that everything below
-- one is contiguous.
CREATE TABLE @.item (
    namespace bytea NOT NULL,
    key bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    lifetime bigint,
    expires_at bigint,
    vectors bytea,
    value bytea NOT NULL,
    PRIMARY KEY (namespace, key)
);

CREATE INDEX item_expiry ON @.item (expires_at) WHERE expires_at IS NOT NULL;

-- Cached results of nodes.
CREATE TABLE @.cached (
    node bytea NOT NULL,
    input bytea NOT NULL,
    expires_at bigint,
    body bytea NOT NULL,
    PRIMARY KEY (node, input)
);

CREATE INDEX cached_expiry ON @.cached (expires_at) WHERE expires_at IS NOT NULL;

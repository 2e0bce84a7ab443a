-- A checkpoint's row is small, so that many rows fit on a page and the last two rows of a thread are nearly always on
-- the same page. Large data is in `link`: the checkpoint's body, and the records of the step that follows it.
ALTER TABLE checkpoint RENAME TO checkpoint_1;
ALTER TABLE record RENAME TO record_1;

CREATE TABLE checkpoint (
    namespace INTEGER NOT NULL,
    id BLOB NOT NULL,
    made_at INTEGER NOT NULL,
    run TEXT NOT NULL,
    tips BLOB NOT NULL,
    -- The link that contains the header and the frontier.
    body INTEGER NOT NULL,
    -- The newest task record of the step that follows; the older ones are chained to it.
    records INTEGER,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

-- Records that were stored before their checkpoint.
CREATE TABLE early (
    namespace INTEGER NOT NULL,
    checkpoint BLOB NOT NULL,
    records INTEGER NOT NULL,
    PRIMARY KEY (namespace, checkpoint)
) STRICT, WITHOUT ROWID;

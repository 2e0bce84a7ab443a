-- The graphs of a thread. The empty name is the thread's root graph. AUTOINCREMENT: ids are never reused, because
-- operations that span several transactions refer to namespaces by id.
CREATE TABLE namespace (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    thread TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (thread, name)
) STRICT;

-- WITHOUT ROWID: the key is the order in which checkpoints are read, and only one B-tree is written.
CREATE TABLE checkpoint (
    namespace INTEGER NOT NULL,
    id BLOB NOT NULL,
    made_at INTEGER NOT NULL,
    run TEXT NOT NULL,
    tips BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

-- Changes of fields. Rows are only appended, so that many threads share pages.
CREATE TABLE link (
    id INTEGER PRIMARY KEY,
    prev INTEGER,
    depth INTEGER NOT NULL,
    -- A checksum over the row: a changed `prev` would lead into another field's chain.
    bound INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- Events of the tasks in the step that follows a checkpoint, in order of arrival. The table has a rowid, because in a
-- WITHOUT ROWID table, a row larger than a quarter of a page would occupy a separate page.
CREATE TABLE record (
    seq INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    checkpoint BLOB NOT NULL,
    task BLOB NOT NULL,
    slot TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (namespace, checkpoint, task, slot)
) STRICT;

-- Leased threads. Each lease has a new token, so that a stale writer is recognized.
CREATE TABLE lease (
    thread TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    owner TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Long-term memory. A namespace consists of its labels, each terminated by a zero byte, so that everything below
-- one is contiguous. The vectors precede the value, so that reading them does not have to skip a long value.
CREATE TABLE item (
    id INTEGER PRIMARY KEY,
    namespace BLOB NOT NULL,
    key BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    lifetime INTEGER,
    expires_at INTEGER,
    vectors BLOB,
    value BLOB NOT NULL,
    UNIQUE (namespace, key)
) STRICT;

CREATE INDEX item_expiry ON item (expires_at) WHERE expires_at IS NOT NULL;

-- Cached results of nodes.
CREATE TABLE cached (
    id INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    input BLOB NOT NULL,
    expires_at INTEGER,
    body BLOB NOT NULL,
    UNIQUE (node, input)
) STRICT;

CREATE INDEX cached_expiry ON cached (expires_at) WHERE expires_at IS NOT NULL;

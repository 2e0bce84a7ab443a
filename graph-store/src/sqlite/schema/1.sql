-- A graph's place in a thread: the empty name is the thread's root graph.
-- No number is given twice: work in several steps goes by the number.
CREATE TABLE namespace (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    thread TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (thread, name)
) STRICT;

-- Without a rowid: the key is the order in which checkpoints are read, and one B-tree is written, not two.
CREATE TABLE checkpoint (
    namespace INTEGER NOT NULL,
    id BLOB NOT NULL,
    made_at INTEGER NOT NULL,
    run TEXT NOT NULL,
    tips BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

-- What fields changed by. Appended at the end only, so that many threads share pages.
CREATE TABLE link (
    id INTEGER PRIMARY KEY,
    prev INTEGER,
    depth INTEGER NOT NULL,
    -- A checksum over the row: a changed `prev` would lead into another field's chain.
    bound INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- What happened to the tasks of the step that follows a checkpoint, in the order in which it came. With a rowid: a row
-- beyond a quarter of a page would take a page of its own in a table without one.
CREATE TABLE record (
    seq INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    checkpoint BLOB NOT NULL,
    task BLOB NOT NULL,
    slot TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (namespace, checkpoint, task, slot)
) STRICT;

-- Who works on a thread. The token is another one each time, so that a late writer is told apart.
CREATE TABLE lease (
    thread TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    owner TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Long-term memory. A namespace is its labels, each ended by a zero byte: all below one lie side by side.
-- The vectors stand before the value, so that a look at them does not read past a long value.
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

-- Results of nodes, to be taken again for equal inputs.
CREATE TABLE cached (
    id INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    input BLOB NOT NULL,
    expires_at INTEGER,
    body BLOB NOT NULL,
    UNIQUE (node, input)
) STRICT;

CREATE INDEX cached_expiry ON cached (expires_at) WHERE expires_at IS NOT NULL;

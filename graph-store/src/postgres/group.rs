//! Groups of writes to one namespace. One call to the database function `write` stores a group.

use std::sync::Arc;

use graph_core::checkpoint::{CheckpointError, CheckpointId, CheckpointKey};
use tokio_postgres::types::ToSql;

use crate::chain::ChainTips;
use crate::encoded::{EncodedCheckpoint, EncodedRecords};

/// Number of parameters of the database function `write`.
pub(super) const PARAMS: usize = 21;
/// Size in bytes at which a group accepts no more writes. PostgreSQL limits a protocol message to 1 GB.
const STATEMENT_BYTES: usize = 64 << 20;

/// Consecutive checkpoints in one namespace, and task records in that namespace.
#[derive(Debug, Default)]
pub(super) struct WriteGroup {
    pub(super) thread: String,
    pub(super) namespace: String,
    pub(super) puts: Vec<Arc<EncodedCheckpoint>>,
    /// The newest link of each field at the base of the first checkpoint, as assumed by the plan. The base is the
    /// checkpoint that the changes are relative to.
    pub(super) base_links: Option<Vec<i64>>,
    pub(super) fields: Vec<String>,
    /// Ids of the newest links, one per field: first those of the first checkpoint, then those of the second, and so
    /// on.
    pub(super) links: Vec<i64>,
    pub(super) new: Vec<i64>,
    pub(super) prevs: Vec<Option<i64>>,
    pub(super) depths: Vec<i32>,
    pub(super) changes: Vec<LinkBody>,
    pub(super) records: Vec<(Arc<EncodedRecords>, usize)>,
    pub(super) bytes: usize,
}

/// The encoded body of a link.
#[derive(Debug)]
pub(super) enum LinkBody {
    /// The change with this index in this checkpoint.
    Change(Arc<EncodedCheckpoint>, usize),
    /// Several changes that were merged by compaction.
    Own(Vec<u8>),
}

impl LinkBody {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Change(put, index) => &put.changes[*index].encoded,
            Self::Own(bytes) => bytes,
        }
    }
}

impl WriteGroup {
    pub(super) fn is_of(&self, key: &CheckpointKey) -> bool {
        self.thread == key.thread && self.namespace == key.namespace
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < STATEMENT_BYTES
    }

    /// Returns whether the group has room and the checkpoint directly follows the last checkpoint in the group and
    /// has the same fields.
    pub(super) fn accepts(&self, put: &EncodedCheckpoint, tips: &ChainTips) -> bool {
        let Some(last) = self.puts.last().map(|it| it.key.id) else { return self.has_room() };
        self.has_room()
            && put.expected_head == Some(last)
            && put.key.id > last
            && put.base.is_none_or(|base| self.puts.iter().any(|it| it.key.id == base))
            && self.fields.iter().eq(tips.keys())
    }

    /// Converts a rejection by the database function to an error.
    pub(super) fn rejection(&self, answer: &str) -> CheckpointError {
        let thread = self.thread.clone();
        let base = self.puts.first().and_then(|it| it.base);
        match (answer, base) {
            ("lease", _) => CheckpointError::LeaseLost { thread },
            ("older", _) => match self.puts.first() {
                Some(put) => CheckpointError::NotNewer { thread, id: put.key.id },
                None => CheckpointError::HeadMoved { thread },
            },
            ("base", Some(id)) => {
                CheckpointError::UnknownCheckpoint { thread, namespace: self.namespace.clone(), id }
            }
            _ => CheckpointError::HeadMoved { thread },
        }
    }

    pub(super) fn params(&self, token: Option<i64>) -> Params<'_> {
        let bytes = |id: CheckpointId| id.to_bytes().to_vec();
        let rows = || self.records.iter().map(|(records, index)| (records, &records.rows[*index]));
        let first = self.puts.first();
        Params {
            group: self,
            thread: self.thread.as_bytes(),
            namespace: self.namespace.as_bytes(),
            token,
            head: first.and_then(|it| it.expected_head).map(bytes),
            base: first.and_then(|it| it.base).map(bytes),
            ids: self.puts.iter().map(|it| bytes(it.key.id)).collect(),
            made_at: self.puts.iter().map(|it| it.made_at).collect(),
            runs: self.puts.iter().map(|it| it.run.as_bytes()).collect(),
            bodies: self.puts.iter().map(|it| &it.body[..]).collect(),
            fields: self.fields.iter().map(String::as_bytes).collect(),
            changes: self.changes.iter().map(LinkBody::bytes).collect(),
            at: rows().map(|(records, _)| bytes(records.key.id)).collect(),
            tasks: rows().map(|(_, row)| row.task.to_bytes().to_vec()).collect(),
            slots: rows().map(|(_, row)| row.slot.as_bytes()).collect(),
            records: rows().map(|(_, row)| &row.body[..]).collect(),
            keep: rows()
                .filter(|it| it.1.keeps_first)
                .map(|(_, row)| row.slot.as_bytes())
                .collect(),
        }
    }
}

/// The contents of a group, as parameters of the database function.
pub(super) struct Params<'a> {
    group: &'a WriteGroup,
    thread: &'a [u8],
    namespace: &'a [u8],
    token: Option<i64>,
    head: Option<Vec<u8>>,
    base: Option<Vec<u8>>,
    ids: Vec<Vec<u8>>,
    made_at: Vec<i64>,
    runs: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
    fields: Vec<&'a [u8]>,
    changes: Vec<&'a [u8]>,
    at: Vec<Vec<u8>>,
    tasks: Vec<Vec<u8>>,
    slots: Vec<&'a [u8]>,
    records: Vec<&'a [u8]>,
    keep: Vec<&'a [u8]>,
}

impl Params<'_> {
    pub(super) fn list(&self) -> [&(dyn ToSql + Sync); PARAMS] {
        [
            &self.thread, &self.namespace, &self.token, &self.head, &self.base,
            &self.group.base_links, &self.ids, &self.made_at, &self.runs, &self.bodies,
            &self.fields, &self.group.links, &self.group.new, &self.group.prevs,
            &self.group.depths, &self.changes, &self.at, &self.tasks, &self.slots, &self.records,
            &self.keep,
        ]
    }
}

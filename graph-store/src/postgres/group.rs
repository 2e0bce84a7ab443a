//! Writes to one namespace, which one call of the function `write` in the database stores.

use std::sync::Arc;

use graph_core::checkpoint::{CheckpointError, CheckpointId, Place};
use tokio_postgres::types::ToSql;

use crate::chain::Tips;
use crate::stored::{Put, Records};

/// How many parameters the function has.
pub(super) const PARAMS: usize = 21;
/// How large the values of one statement may become before another one begins: a message has at most 1 GB.
const STATEMENT_BYTES: usize = 64 << 20;

/// Checkpoints of one namespace, of which each follows the one before, and records.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) thread: String,
    pub(super) namespace: String,
    pub(super) puts: Vec<Arc<Put>>,
    /// The newest links of the first one's base, as they were taken for.
    pub(super) base_links: Option<Vec<i64>>,
    pub(super) fields: Vec<String>,
    /// The newest link of each field, one checkpoint after the other.
    pub(super) links: Vec<i64>,
    pub(super) new: Vec<i64>,
    pub(super) prevs: Vec<Option<i64>>,
    pub(super) depths: Vec<i32>,
    pub(super) changes: Vec<Stored>,
    pub(super) records: Vec<(Arc<Records>, usize)>,
    pub(super) bytes: usize,
}

/// The stored form of a link.
#[derive(Debug)]
pub(super) enum Stored {
    /// That of a checkpoint's change with this index.
    Change(Arc<Put>, usize),
    /// That of several changes taken together.
    Own(Vec<u8>),
}

impl Stored {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Change(put, index) => &put.changes[*index].encoded,
            Self::Own(bytes) => bytes,
        }
    }
}

impl Group {
    pub(super) fn is_of(&self, place: &Place) -> bool {
        self.thread == place.thread && self.namespace == place.namespace
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < STATEMENT_BYTES
    }

    /// Whether the checkpoint follows the last one here and has the same fields.
    pub(super) fn takes(&self, put: &Put, tips: &Tips) -> bool {
        let Some(last) = self.puts.last().map(|it| it.place.id) else { return self.has_room() };
        self.has_room()
            && put.expected_head == Some(last)
            && put.place.id > last
            && put.base.is_none_or(|base| self.puts.iter().any(|it| it.place.id == base))
            && self.fields.iter().eq(tips.keys())
    }

    /// The error that an answer of the database means.
    pub(super) fn refused(&self, answer: &str) -> CheckpointError {
        let thread = self.thread.clone();
        let base = self.puts.first().and_then(|it| it.base);
        match (answer, base) {
            ("lease", _) => CheckpointError::LeaseLost { thread },
            ("older", _) => match self.puts.first() {
                Some(put) => CheckpointError::NotNewer { thread, id: put.place.id },
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
            ids: self.puts.iter().map(|it| bytes(it.place.id)).collect(),
            made_at: self.puts.iter().map(|it| it.made_at).collect(),
            runs: self.puts.iter().map(|it| it.run.as_bytes()).collect(),
            bodies: self.puts.iter().map(|it| &it.body[..]).collect(),
            fields: self.fields.iter().map(String::as_bytes).collect(),
            changes: self.changes.iter().map(Stored::bytes).collect(),
            at: rows().map(|(records, _)| bytes(records.place.id)).collect(),
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

/// A group as the parameters of the function.
pub(super) struct Params<'a> {
    group: &'a Group,
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
            &self.thread,
            &self.namespace,
            &self.token,
            &self.head,
            &self.base,
            &self.group.base_links,
            &self.ids,
            &self.made_at,
            &self.runs,
            &self.bodies,
            &self.fields,
            &self.group.links,
            &self.group.new,
            &self.group.prevs,
            &self.group.depths,
            &self.changes,
            &self.at,
            &self.tasks,
            &self.slots,
            &self.records,
            &self.keep,
        ]
    }
}

//! What is to be written, put together so that one statement stores it.
//!
//! Where each new link hooks on to is decided here, from the newest links of the checkpoint before it. The
//! database checks that they still are what they were taken for.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use graph_core::checkpoint::{Change, CheckpointError, CheckpointId, Place, TaskId};
use tokio_postgres::types::ToSql;

use super::{
    chains::stored_depth,
    database::Postgres,
    failure::Failure,
    known::{Known, Numbers},
    ops::{NewChange, Op, Put, Records},
};
use crate::{
    chain::{self, Hook, Link, Tip, Tips},
    codec::CodecError,
};

/// How large the values of one statement may become before another one begins: a message has at most 1 GB.
const STATEMENT_BYTES: usize = 64 << 20;

/// Writes that are to be stored at once.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) groups: Vec<Group<'a>>,
    /// The newest links of the checkpoints in it.
    tips: BTreeMap<&'a Place, Arc<Tips>>,
    /// The links in it, which are not in the database yet.
    fresh: HashMap<i64, Fresh<'a>>,
    /// Whether a checkpoint builds on one that is not there, as far as could be seen.
    pub(super) lacks_base: bool,
}

struct Fresh<'a> {
    prev: Option<i64>,
    depth: u32,
    changes: Cow<'a, [Change]>,
}

/// Writes to one namespace: checkpoints of which each follows the one before, and records.
#[derive(Default)]
pub(super) struct Group<'a> {
    pub(super) thread: &'a str,
    namespace: &'a str,
    puts: Vec<&'a Put>,
    base_links: Option<Vec<i64>>,
    fields: Vec<String>,
    links: Vec<i64>,
    new: Vec<i64>,
    prevs: Vec<Option<i64>>,
    depths: Vec<i32>,
    changes: Vec<Cow<'a, [u8]>>,
    at: Vec<CheckpointId>,
    tasks: Vec<TaskId>,
    slots: Vec<&'a [u8]>,
    records: Vec<&'a [u8]>,
    /// The slots that keep what is in them.
    keep: Vec<&'a [u8]>,
    taken: HashMap<(CheckpointId, TaskId, &'a str), usize>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) async fn plan(
        database: &Postgres,
        known: &Known,
        numbers: &Numbers,
        ops: &'a [Op],
    ) -> Result<Self, Failure<CheckpointError>> {
        let needs_number = |it: &&NewChange| !matches!(it.change, Change::Clear);
        let changes = ops.iter().flat_map(|op| match op {
            Op::Put(put) => &put.changes[..],
            Op::Record(_) => &[],
        });
        let count = changes.filter(needs_number).count();
        let mut numbers = numbers.take(database, count).await?.into_iter();
        let mut batch = Self::default();
        for op in ops {
            match op {
                Op::Record(records) => batch.add_records(records),
                Op::Put(put) => {
                    let base = match batch.base_tips(put) {
                        Some(tips) => Some(tips),
                        None => database.base_tips(known, put).await?,
                    };
                    batch.add_put(database, put, base, &mut numbers).await?;
                }
            }
        }
        // Together they are stored or not, so their order is free: the same for all keeps locks from crossing.
        batch.groups.sort_by(|a, b| (a.thread, a.namespace).cmp(&(b.thread, b.namespace)));
        Ok(batch)
    }

    /// The newest links of all fields at the last checkpoint of each namespace.
    pub(super) fn newest(&self, group: &Group<'a>) -> Option<(&'a Place, Arc<Tips>)> {
        let place = &group.puts.last()?.place;
        Some((place, self.tips.get(place)?.clone()))
    }

    fn base_tips(&self, put: &Put) -> Option<Arc<Tips>> {
        match put.base {
            None => Some(Arc::default()),
            Some(id) => self.tips.get(&Place { id, ..put.place.clone() }).cloned(),
        }
    }

    fn group(&mut self, place: &'a Place, fits: impl Fn(&Group<'a>) -> bool) -> &mut Group<'a> {
        let same = |it: &Group<'a>| it.thread == place.thread && it.namespace == place.namespace;
        let index = match self.groups.iter().rposition(same) {
            Some(index) if fits(&self.groups[index]) => index,
            _ => {
                let (thread, namespace) = (&place.thread, &place.namespace);
                self.groups.push(Group { thread, namespace, ..Group::default() });
                self.groups.len() - 1
            }
        };
        &mut self.groups[index]
    }

    fn add_records(&mut self, records: &'a Records) {
        let id = records.place.id;
        for row in &records.rows {
            let slot = (id, row.task, row.slot.as_str());
            let group = self.group(&records.place, Group::has_room);
            group.bytes += row.body.len();
            match group.taken.get(&slot) {
                Some(_) if row.keeps_first => {}
                Some(&index) => group.records[index] = &row.body,
                None => {
                    group.taken.insert(slot, group.records.len());
                    group.at.push(id);
                    group.tasks.push(row.task);
                    group.slots.push(row.slot.as_bytes());
                    group.records.push(&row.body);
                    if row.keeps_first {
                        group.keep.push(row.slot.as_bytes());
                    }
                }
            }
        }
    }

    async fn add_put(
        &mut self,
        database: &Postgres,
        put: &'a Put,
        base: Option<Arc<Tips>>,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Result<(), Failure<CheckpointError>> {
        let planned = match &base {
            Some(base) => self.weave(database, put, base, numbers).await?,
            None => None,
        };
        // Without a plan the base is gone, and the database says what to answer.
        self.lacks_base |= planned.is_none();
        let base = base.filter(|_| planned.is_some());
        let Woven { tips, new } = planned.unwrap_or_default();
        let group = self.group(&put.place, |it| it.takes(put, &tips));
        if group.puts.is_empty() {
            group.base_links = base.map(|it| it.values().map(|tip| tip.link).collect());
            group.fields = tips.keys().cloned().collect();
        }
        group.puts.push(put);
        group.bytes += put.body.len();
        group.links.extend(tips.values().map(|it| it.link));
        for NewLink { id, prev, depth, body } in new {
            group.bytes += body.len();
            group.new.push(id);
            group.prevs.push(prev);
            group.depths.push(stored_depth(depth));
            group.changes.push(body);
        }
        self.tips.insert(&put.place, Arc::new(tips));
        Ok(())
    }

    /// The new links of a checkpoint; `None` if links are missing that a base which is there would have.
    async fn weave(
        &mut self,
        database: &Postgres,
        put: &'a Put,
        base: &Tips,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Result<Option<Woven<'a>>, Failure<CheckpointError>> {
        let mut woven = Woven { tips: base.clone(), new: Vec::new() };
        for NewChange { field, change, encoded } in &put.changes {
            let number = if matches!(change, Change::Clear) { None } else { numbers.next() };
            let Some(id) = number else {
                woven.tips.remove(field);
                continue;
            };
            let alone = Cow::Borrowed(std::slice::from_ref(change));
            let encoded = Cow::Borrowed(&encoded[..]);
            let (prev, depth, changes, body) =
                match Hook::of(change, woven.tips.get(field).copied()) {
                    Hook::First => (None, 0, alone, encoded),
                    Hook::Next { tip, depth } => (Some(tip), depth, alone, encoded),
                    Hook::Over { tip, depth, back_to } => {
                        let before = self.stretch(database, &put.place, tip, back_to).await?;
                        let Some(before) = before else { return Ok(None) };
                        let link = chain::take_in(before, change.clone(), depth);
                        let what = || format!("field `{field}`");
                        match database.codec().encode(what, &link.changes) {
                            Ok(body) => (link.prev, depth, Cow::Owned(link.changes), body.into()),
                            // Then the links stay apart, and reading takes longer.
                            Err(CodecError::TooLarge { .. }) => (Some(tip), depth, alone, encoded),
                            Err(error) => return Err(error.into()),
                        }
                    }
                };
            self.fresh.insert(id, Fresh { prev, depth, changes });
            woven.new.push(NewLink { id, prev, depth, body });
            woven.tips.insert(field.clone(), Tip { link: id, depth });
        }
        Ok(Some(woven))
    }

    /// The links from one on back to that depth, newest first: those that are new, then those in the database.
    async fn stretch(
        &self,
        database: &Postgres,
        place: &Place,
        tip: i64,
        back_to: u32,
    ) -> Result<Option<Vec<Link>>, Failure<CheckpointError>> {
        let mut stretch = Vec::new();
        let mut next = tip;
        while let Some(Fresh { prev, depth, changes }) = self.fresh.get(&next) {
            match prev {
                Some(prev) if *depth > back_to => next = *prev,
                _ => return Ok(Some(stretch)),
            }
            stretch.push(Link { prev: *prev, depth: *depth, changes: changes.to_vec() });
        }
        let stored = database.stretch(place, next, back_to).await.map_err(|it| it.at(place))?;
        Ok(stored.map(|it| stretch.into_iter().chain(it).collect()))
    }
}

/// What is written of a checkpoint's fields: the newest link of each, and which links are new.
#[derive(Default)]
struct Woven<'a> {
    tips: Tips,
    new: Vec<NewLink<'a>>,
}

struct NewLink<'a> {
    id: i64,
    prev: Option<i64>,
    depth: u32,
    body: Cow<'a, [u8]>,
}

impl Group<'_> {
    fn has_room(&self) -> bool {
        self.bytes < STATEMENT_BYTES
    }

    /// Whether the checkpoint follows the last one here and has the same fields.
    fn takes(&self, put: &Put, tips: &Tips) -> bool {
        let Some(last) = self.puts.last().map(|it| it.place.id) else { return self.has_room() };
        self.has_room()
            && put.expected_head == Some(last)
            && put.place.id > last
            && put.base.is_none_or(|base| self.puts.iter().any(|it| it.place.id == base))
            && self.fields.iter().eq(tips.keys())
    }

    /// The first of the checkpoints: the one whose head and base the database compares.
    pub(super) fn first(&self) -> Option<&Put> {
        self.puts.first().copied()
    }

    pub(super) fn params(&self, token: Option<i64>) -> Params<'_> {
        let bytes = |id: CheckpointId| id.to_bytes().to_vec();
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
            at: self.at.iter().map(|it| bytes(*it)).collect(),
            tasks: self.tasks.iter().map(|it| it.to_bytes().to_vec()).collect(),
        }
    }
}

/// A group as the parameters of the function `write`.
pub(super) struct Params<'a> {
    group: &'a Group<'a>,
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
    at: Vec<Vec<u8>>,
    tasks: Vec<Vec<u8>>,
}

impl Params<'_> {
    pub(super) fn list(&self) -> [&(dyn ToSql + Sync); 21] {
        let group = self.group;
        [
            &self.thread,
            &self.namespace,
            &self.token,
            &self.head,
            &self.base,
            &group.base_links,
            &self.ids,
            &self.made_at,
            &self.runs,
            &self.bodies,
            &self.fields,
            &group.links,
            &group.new,
            &group.prevs,
            &group.depths,
            &group.changes,
            &self.at,
            &self.tasks,
            &group.slots,
            &group.records,
            &group.keep,
        ]
    }
}

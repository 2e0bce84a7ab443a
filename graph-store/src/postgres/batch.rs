//! What is to be written, put together so that few statements store it.
//!
//! Where each new link hooks on to is decided here, from the newest links of the checkpoint before it. The
//! database checks that they still are what they were taken for.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use graph_core::checkpoint::{Change, CheckpointError, CheckpointId, Place, TaskId};

use super::{
    chains::stored_depth,
    database::Postgres,
    failure::Failure,
    group::{Group, Stored},
    known::{Known, Numbers},
    ops::Op,
};
use crate::{
    chain::{self, Hook, Link, Tip, Tips},
    codec::CodecError,
    stored::{NewChange, Put, Records},
};

/// Writes that are to be stored at once.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) groups: Vec<Arc<Group>>,
    /// The newest links of the checkpoints in it.
    pub(super) tips: BTreeMap<&'a Place, Arc<Tips>>,
    /// Whether a checkpoint builds on one that is not there, as far as could be seen.
    pub(super) lacks_base: bool,
}

/// A batch in the making.
#[derive(Default)]
struct Planner<'a> {
    groups: Vec<Group>,
    tips: BTreeMap<&'a Place, Arc<Tips>>,
    /// The links in it, which are not in the database yet.
    fresh: HashMap<i64, Fresh<'a>>,
    /// Where the record of a task's slot stands: the group's index, and its own.
    slots: HashMap<(usize, CheckpointId, TaskId, &'a str), usize>,
    lacks_base: bool,
}

struct Fresh<'a> {
    prev: Option<i64>,
    depth: u32,
    changes: Cow<'a, [Change]>,
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
        let mut planner = Planner::default();
        for op in ops {
            match op {
                Op::Record(records) => planner.add_records(records),
                Op::Put(put) => {
                    let base = match planner.base_tips(put) {
                        Some(tips) => Some(tips),
                        None => database.base_tips(known, put).await?,
                    };
                    planner.add_put(database, put, base, &mut numbers).await?;
                }
            }
        }
        let Planner { mut groups, tips, lacks_base, .. } = planner;
        // Together they are stored or not, so their order is free: the same for all keeps locks from crossing.
        groups.sort_by(|a, b| (&a.thread, &a.namespace).cmp(&(&b.thread, &b.namespace)));
        Ok(Self { groups: groups.into_iter().map(Arc::new).collect(), tips, lacks_base })
    }
}

impl<'a> Planner<'a> {
    fn base_tips(&self, put: &Put) -> Option<Arc<Tips>> {
        match put.base {
            None => Some(Arc::default()),
            Some(id) => self.tips.get(&Place { id, ..put.place.clone() }).cloned(),
        }
    }

    /// The index of the group that a write goes to.
    fn group(&mut self, place: &Place, fits: impl Fn(&Group) -> bool) -> usize {
        match self.groups.iter().rposition(|it| it.is_of(place)) {
            Some(index) if fits(&self.groups[index]) => index,
            _ => {
                let (thread, namespace) = (place.thread.clone(), place.namespace.clone());
                self.groups.push(Group { thread, namespace, ..Group::default() });
                self.groups.len() - 1
            }
        }
    }

    fn add_records(&mut self, records: &'a Arc<Records>) {
        let id = records.place.id;
        for (row, it) in records.rows.iter().enumerate() {
            let index = self.group(&records.place, Group::has_room);
            let group = &mut self.groups[index];
            let slot = (index, id, it.task, it.slot.as_str());
            match self.slots.get(&slot) {
                Some(_) if it.keeps_first => {}
                Some(&place) => group.records[place] = (records.clone(), row),
                None => {
                    self.slots.insert(slot, group.records.len());
                    group.records.push((records.clone(), row));
                    group.bytes += it.body.len();
                }
            }
        }
    }

    async fn add_put(
        &mut self,
        database: &Postgres,
        put: &'a Arc<Put>,
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
        let index = self.group(&put.place, |it| it.takes(put, &tips));
        let group = &mut self.groups[index];
        if group.puts.is_empty() {
            group.base_links = base.map(|it| it.values().map(|tip| tip.link).collect());
            group.fields = tips.keys().cloned().collect();
        }
        group.puts.push(put.clone());
        group.bytes += put.body.len();
        group.links.extend(tips.values().map(|it| it.link));
        for NewLink { id, prev, depth, stored } in new {
            group.bytes += stored.bytes().len();
            group.new.push(id);
            group.prevs.push(prev);
            group.depths.push(stored_depth(depth));
            group.changes.push(stored);
        }
        self.tips.insert(&put.place, Arc::new(tips));
        Ok(())
    }

    /// The new links of a checkpoint; `None` if links are missing that a base which is there would have.
    async fn weave(
        &mut self,
        database: &Postgres,
        put: &'a Arc<Put>,
        base: &Tips,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Result<Option<Woven>, Failure<CheckpointError>> {
        let mut woven = Woven { tips: base.clone(), new: Vec::new() };
        for (index, NewChange { field, change, .. }) in put.changes.iter().enumerate() {
            let number = if matches!(change, Change::Clear) { None } else { numbers.next() };
            let Some(id) = number else {
                woven.tips.remove(field);
                continue;
            };
            let alone = Cow::Borrowed(std::slice::from_ref(change));
            let stored = Stored::Change(put.clone(), index);
            let (prev, depth, changes, stored) =
                match Hook::of(change, woven.tips.get(field).copied()) {
                    Hook::First => (None, 0, alone, stored),
                    Hook::Next { tip, depth } => (Some(tip), depth, alone, stored),
                    Hook::Over { tip, depth, back_to } => {
                        let before = self.stretch(database, &put.place, tip, back_to).await?;
                        let Some(before) = before else { return Ok(None) };
                        let link = chain::take_in(before, change.clone(), depth);
                        let what = || format!("field `{field}`");
                        match database.codec().encode(what, &link.changes) {
                            Ok(bytes) => {
                                (link.prev, depth, Cow::Owned(link.changes), Stored::Own(bytes))
                            }
                            // Then the links stay apart, and reading takes longer.
                            Err(CodecError::TooLarge { .. }) => (Some(tip), depth, alone, stored),
                            Err(error) => return Err(error.into()),
                        }
                    }
                };
            self.fresh.insert(id, Fresh { prev, depth, changes });
            woven.new.push(NewLink { id, prev, depth, stored });
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
struct Woven {
    tips: Tips,
    new: Vec<NewLink>,
}

struct NewLink {
    id: i64,
    prev: Option<i64>,
    depth: u32,
    stored: Stored,
}

//! Plans writes so that they can be stored with few statements.
//!
//! The plan determines the predecessor of each new link, from the chain tips of the preceding checkpoint. The
//! database verifies that those tips are still current.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use graph_core::checkpoint::{Change, CheckpointError, CheckpointId, CheckpointKey, TaskId};

use super::{
    chains::stored_depth,
    database::Postgres,
    failure::Failure,
    group::{LinkBody, WriteGroup},
    ops::WriteOp,
    tip_cache::{LinkIds, TipCache},
};
use crate::{
    chain::{self, ChainTip, ChainTips, Link, LinkPlacement},
    codec::CodecError,
    encoded::{EncodedChange, EncodedCheckpoint, EncodedRecords},
};

/// Writes that are stored together, in one transaction.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) groups: Vec<Arc<WriteGroup>>,
    /// The chain tips of each checkpoint in the batch, that is, the newest link of each of its fields.
    pub(super) tips: BTreeMap<&'a CheckpointKey, Arc<ChainTips>>,
    /// Whether the base of a checkpoint in the batch could not be found. The base is the checkpoint that the changes
    /// are relative to.
    pub(super) is_base_missing: bool,
}

/// A batch under construction.
#[derive(Default)]
struct Planner<'a> {
    groups: Vec<WriteGroup>,
    tips: BTreeMap<&'a CheckpointKey, Arc<ChainTips>>,
    /// Links that belong to the batch and are not in the database yet.
    planned: HashMap<i64, PlannedLink<'a>>,
    /// Index of each record in the `records` of its group. The first component of the key is the index of the group.
    slots: HashMap<(usize, CheckpointId, TaskId, &'a str), usize>,
    is_base_missing: bool,
}

struct PlannedLink<'a> {
    prev: Option<i64>,
    depth: u32,
    changes: Cow<'a, [Change]>,
}

impl<'a> Batch<'a> {
    pub(super) async fn plan(
        database: &Postgres,
        cache: &TipCache,
        link_ids: &LinkIds,
        ops: &'a [WriteOp],
    ) -> Result<Self, Failure<CheckpointError>> {
        let needs_id = |it: &&EncodedChange| !matches!(it.change, Change::Clear);
        let changes = ops.iter().flat_map(|op| match op {
            WriteOp::Put(put) => &put.changes[..],
            WriteOp::Record(_) => &[],
        });
        let count = changes.filter(needs_id).count();
        let mut ids = link_ids.take(database, count).await?.into_iter();
        let mut planner = Planner::default();
        for op in ops {
            match op {
                WriteOp::Record(records) => planner.add_records(records),
                WriteOp::Put(put) => {
                    let base = match planner.base_tips(put) {
                        Some(tips) => Some(tips),
                        None => database.base_tips(cache, put).await?,
                    };
                    planner.add_put(database, put, base, &mut ids).await?;
                }
            }
        }
        let Planner { mut groups, tips, is_base_missing, .. } = planner;
        // Either all groups are stored or none, so their order does not matter for the result. Using the same order
        // everywhere prevents deadlocks.
        groups.sort_by(|a, b| (&a.thread, &a.namespace).cmp(&(&b.thread, &b.namespace)));
        Ok(Self { groups: groups.into_iter().map(Arc::new).collect(), tips, is_base_missing })
    }
}

impl<'a> Planner<'a> {
    fn base_tips(&self, put: &EncodedCheckpoint) -> Option<Arc<ChainTips>> {
        match put.base {
            None => Some(Arc::default()),
            Some(id) => self.tips.get(&CheckpointKey { id, ..put.key.clone() }).cloned(),
        }
    }

    /// Returns the index of the group to which a write with this key is added. Creates a group if necessary.
    fn group(&mut self, key: &CheckpointKey, fits: impl Fn(&WriteGroup) -> bool) -> usize {
        match self.groups.iter().rposition(|it| it.is_of(key)) {
            Some(index) if fits(&self.groups[index]) => index,
            _ => {
                let (thread, namespace) = (key.thread.clone(), key.namespace.clone());
                self.groups.push(WriteGroup { thread, namespace, ..WriteGroup::default() });
                self.groups.len() - 1
            }
        }
    }

    fn add_records(&mut self, records: &'a Arc<EncodedRecords>) {
        let id = records.key.id;
        for (row, it) in records.rows.iter().enumerate() {
            let index = self.group(&records.key, WriteGroup::has_room);
            let group = &mut self.groups[index];
            let slot = (index, id, it.task, it.slot.as_str());
            match self.slots.get(&slot) {
                Some(_) if it.keeps_first => {}
                Some(&key) => group.records[key] = (records.clone(), row),
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
        put: &'a Arc<EncodedCheckpoint>,
        base: Option<Arc<ChainTips>>,
        ids: &mut impl Iterator<Item = i64>,
    ) -> Result<(), Failure<CheckpointError>> {
        let planned = match &base {
            Some(base) => self.plan_links(database, put, base, ids).await?,
            None => None,
        };
        // If there is no plan, the base is missing, and the database determines which error to return.
        self.is_base_missing |= planned.is_none();
        let base = base.filter(|_| planned.is_some());
        let PlannedFields { tips, new } = planned.unwrap_or_default();
        let index = self.group(&put.key, |it| it.accepts(put, &tips));
        let group = &mut self.groups[index];
        if group.puts.is_empty() {
            group.base_links = base.map(|it| it.values().map(|tip| tip.link).collect());
            group.fields = tips.keys().cloned().collect();
        }
        group.puts.push(put.clone());
        group.bytes += put.body.len();
        group.links.extend(tips.values().map(|it| it.link));
        for NewLink { id, prev, depth, body } in new {
            group.bytes += body.bytes().len();
            group.new.push(id);
            group.prevs.push(prev);
            group.depths.push(stored_depth(depth));
            group.changes.push(body);
        }
        self.tips.insert(&put.key, Arc::new(tips));
        Ok(())
    }

    /// Plans the new links of a checkpoint. Returns `None` if stored links are missing, which means that the base
    /// no longer exists.
    async fn plan_links(
        &mut self,
        database: &Postgres,
        put: &'a Arc<EncodedCheckpoint>,
        base: &ChainTips,
        ids: &mut impl Iterator<Item = i64>,
    ) -> Result<Option<PlannedFields>, Failure<CheckpointError>> {
        let mut fields = PlannedFields { tips: base.clone(), new: Vec::new() };
        for (index, EncodedChange { field, change, .. }) in put.changes.iter().enumerate() {
            let new_id = if matches!(change, Change::Clear) { None } else { ids.next() };
            let Some(id) = new_id else {
                fields.tips.remove(field);
                continue;
            };
            let alone = Cow::Borrowed(std::slice::from_ref(change));
            let body = LinkBody::Change(put.clone(), index);
            let (prev, depth, changes, body) =
                match LinkPlacement::of(change, fields.tips.get(field).copied()) {
                    LinkPlacement::First => (None, 0, alone, body),
                    LinkPlacement::Append { tip, depth } => (Some(tip), depth, alone, body),
                    LinkPlacement::Compact { tip, depth, back_to } => {
                        let before = self.links_back_to(database, &put.key, tip, back_to).await?;
                        let Some(before) = before else { return Ok(None) };
                        let link = chain::compact(before, change.clone(), depth);
                        let what = || format!("field `{field}`");
                        match database.codec().encode(what, &link.changes) {
                            Ok(bytes) => {
                                (link.prev, depth, Cow::Owned(link.changes), LinkBody::Own(bytes))
                            }
                            // The merged link would exceed the maximum size of a value, so the links stay separate.
                            // Reads are then slower.
                            Err(CodecError::TooLarge { .. }) => (Some(tip), depth, alone, body),
                            Err(error) => return Err(error.into()),
                        }
                    }
                };
            self.planned.insert(id, PlannedLink { prev, depth, changes });
            fields.new.push(NewLink { id, prev, depth, body });
            fields.tips.insert(field.clone(), ChainTip { link: id, depth });
        }
        Ok(Some(fields))
    }

    /// Returns the links from `tip` back to the depth `back_to`, newest first. Planned links come before stored
    /// links.
    async fn links_back_to(
        &self,
        database: &Postgres,
        key: &CheckpointKey,
        tip: i64,
        back_to: u32,
    ) -> Result<Option<Vec<Link>>, Failure<CheckpointError>> {
        let mut links = Vec::new();
        let mut next = tip;
        while let Some(PlannedLink { prev, depth, changes }) = self.planned.get(&next) {
            match prev {
                Some(prev) if *depth > back_to => next = *prev,
                _ => return Ok(Some(links)),
            }
            links.push(Link { prev: *prev, depth: *depth, changes: changes.to_vec() });
        }
        let stored =
            database.links_back_to(key, next, back_to).await.map_err(|it| it.of_checkpoint(key))?;
        Ok(stored.map(|it| links.into_iter().chain(it).collect()))
    }
}

/// The fields of a planned checkpoint: their chain tips and their new links.
#[derive(Default)]
struct PlannedFields {
    tips: ChainTips,
    new: Vec<NewLink>,
}

struct NewLink {
    id: i64,
    prev: Option<i64>,
    depth: u32,
    body: LinkBody,
}

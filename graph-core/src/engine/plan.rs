//! Plan: derives the tasks of the next step from the last step.
//!
//! Planning is pure and synchronous. It examines only nodes that the last step reached, so the cost of a step does not
//! depend on the size of the graph.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;

use crate::{
    checkpoint::record::{FrontierRecord, SendRecord, StartRecord},
    context::task::TaskKind,
    engine::{
        outcome::TaskOutput,
        target::{Target, Targets},
    },
    goto::Payload,
    graph::erased::{Graph, NodeIdx},
    state::{erased::AnyUpdate, field::FieldError},
};

/// The work that is pending between two steps. It determines the tasks of the next step.
#[derive(Default)]
pub(super) struct Frontier {
    /// Incremented on every change to the thread. A static stop triggers only if `version` exceeds `resumed_version`.
    pub(super) version: u64,
    pub(super) resumed_version: u64,
    /// Nodes that ran in the last step because an edge, a join or a goto led to them. A step that ran only payload
    /// tasks leaves the list unchanged.
    pub(super) ran: Vec<NodeIdx>,
    scheduled: Vec<NodeIdx>,
    /// Deferred nodes that were reached and are still waiting.
    deferred: BTreeSet<NodeIdx>,
    /// Deferred nodes that run in the next step.
    released: BTreeSet<NodeIdx>,
    /// For each join, the sources that have finished since the join last fired.
    joins: BTreeMap<usize, BTreeSet<NodeIdx>>,
    /// Joins for which a new source finished in the last step.
    fed_joins: Vec<usize>,
    sends: Vec<(NodeIdx, Payload)>,
    pub(super) input: Option<StartInput>,
}

/// The update that START writes, and the targets that START routes to in addition to its edges.
pub(super) struct StartInput {
    pub(super) update: AnyUpdate,
    pub(super) gotos: Targets,
}

/// A task of the next step.
#[derive(Clone, Debug)]
pub(super) struct PlannedTask {
    pub(super) node: NodeIdx,
    pub(super) kind: TaskKind,
    pub(super) payload: Option<Payload>,
}

impl PlannedTask {
    /// Returns the position of the task in task order, in which writes are folded and targets are followed: first the
    /// tasks without a payload, by node name, then the tasks with payloads, in the order sent.
    pub(super) fn order(&self) -> (bool, u32) {
        match self.kind {
            TaskKind::Push(index) => (true, index),
            TaskKind::Pull | TaskKind::Handler(_) => (false, self.node),
        }
    }
}

impl Frontier {
    /// Returns the tasks of the next step in the order in which they start: first the tasks with payloads in the order
    /// sent, then the other tasks by node name. As in LangGraph, this differs from [task order](PlannedTask::order).
    ///
    /// If `take` is true, payloads are moved out of the frontier instead of cloned.
    pub(super) fn tasks(&mut self, graph: &Graph, take: bool) -> SmallVec<[PlannedTask; 1]> {
        let mut tasks: SmallVec<[PlannedTask; 1]> = SmallVec::new();
        let push = |(index, (node, payload)): (u32, (NodeIdx, Payload))| PlannedTask {
            node,
            kind: TaskKind::Push(index),
            payload: Some(payload),
        };
        if take {
            tasks.extend((0..).zip(std::mem::take(&mut self.sends)).map(push));
        } else {
            tasks.extend((0..).zip(self.sends.iter().cloned()).map(push));
        }
        let pushes = tasks.len();
        let pull = |node| PlannedTask { node, kind: TaskKind::Pull, payload: None };
        tasks.extend(self.scheduled.iter().copied().map(pull));
        tasks.extend(self.released.iter().copied().map(pull));
        let joined = self.complete_joins(graph).filter(|(_, target)| !is_deferred(graph, *target));
        tasks.extend(joined.map(|(_, target)| pull(target)));
        tasks.extend(self.input.as_ref().map(|_| pull(graph.start)));
        if tasks.len() > pushes + 1 {
            tasks[pushes..].sort_unstable_by_key(|it| it.node);
            tasks.dedup_by_key(|it| it.order());
        }
        tasks
    }

    /// Returns the node of the next step's only task, if that task was triggered by an edge or a goto.
    pub(super) fn only_node(&self) -> Option<NodeIdx> {
        let alone = self.sends.is_empty()
            && self.released.is_empty()
            && self.joins.is_empty()
            && self.input.is_none();
        match self.scheduled[..] {
            [node] if alone => Some(node),
            _ => None,
        }
    }

    /// Returns a copy without the input of START.
    pub(super) fn fork(&self) -> Self {
        Self {
            version: self.version,
            resumed_version: self.resumed_version,
            ran: self.ran.clone(),
            scheduled: self.scheduled.clone(),
            deferred: self.deferred.clone(),
            released: self.released.clone(),
            joins: self.joins.clone(),
            fed_joins: self.fed_joins.clone(),
            sends: self.sends.clone(),
            input: None,
        }
    }

    /// Returns the deferred nodes that were reached, whether or not they still wait.
    pub(super) fn deferred_nodes<'a>(
        &'a self,
        graph: &'a Graph,
    ) -> impl Iterator<Item = NodeIdx> + 'a {
        let joined = self.complete_joins(graph).map(|it| it.1);
        let joined = joined.filter(|it| is_deferred(graph, *it));
        self.deferred.iter().chain(&self.released).copied().chain(joined)
    }

    /// Returns whether a node is certain to run in the next step, although the frontier does not contain the targets of
    /// tasks that are not done. `may_run` returns whether a node may run before the next step because of these tasks.
    pub(super) fn is_certain(
        &self,
        graph: &Graph,
        node: NodeIdx,
        may_run: impl Fn(NodeIdx) -> bool,
    ) -> bool {
        // If a source may run again first, the join could fire in an earlier step instead.
        let fires = |join: &usize| {
            let sources = &graph.joins[*join].sources;
            self.is_complete(graph, *join) && !sources.iter().any(|it| may_run(*it))
        };
        let joins = &graph.node(node).incoming_joins;
        !is_deferred(graph, node) && (self.scheduled.contains(&node) || joins.iter().any(fires))
    }

    /// Advances past a step whose only task was triggered by an edge or a goto.
    pub(super) fn advance_one(&mut self, graph: &Graph, output: &TaskOutput) {
        self.ran.clear();
        self.ran.push(output.node);
        self.begin_step();
        self.follow(graph, output);
        self.release_deferred(graph);
    }

    /// Advances past a step that ran the tasks `ran` and follows the edges and targets of the finished tasks. Both are
    /// in task order.
    pub(super) fn advance<'a>(
        &mut self,
        graph: &Graph,
        ran: impl Iterator<Item = &'a PlannedTask> + Clone,
        finished: impl Iterator<Item = &'a TaskOutput>,
    ) {
        let pulled = ran.filter(|it| it.kind == TaskKind::Pull).map(|it| it.node);
        if pulled.clone().next().is_some() {
            self.ran.clear();
            self.ran.extend(pulled.clone());
        }
        for node in pulled {
            self.consume(graph, node);
        }
        self.begin_step();
        for output in finished {
            self.follow(graph, output);
        }
        self.release_deferred(graph);
    }

    /// Advances past an edit that is attributed to nodes. Drops pending nodes and follows the edges and targets of the
    /// edited nodes.
    pub(super) fn apply_edit<'a>(
        &mut self,
        graph: &Graph,
        finished: impl Iterator<Item = &'a TaskOutput>,
    ) {
        self.begin_step();
        for output in finished {
            self.follow(graph, output);
        }
        // A released node that is reached again goes back to waiting.
        let deferred = &self.deferred;
        self.released.retain(|it| !deferred.contains(it));
        self.release_deferred(graph);
    }

    /// Advances past a step that ended in a write conflict. The step's nodes count as finished, but only the edges and
    /// targets of the given tasks are followed.
    pub(super) fn abandon<'a>(
        &mut self,
        graph: &Graph,
        finished: impl Iterator<Item = &'a TaskOutput>,
    ) {
        for task in self.tasks(graph, false) {
            if task.kind == TaskKind::Pull {
                self.consume(graph, task.node);
            }
        }
        self.version += 1;
        self.scheduled.clear();
        self.input = None;
        let pending = std::mem::take(&mut self.sends);
        for output in finished {
            self.follow(graph, output);
        }
        if self.sends.is_empty() {
            self.sends = pending;
        }
    }

    /// Drops all pending tasks. Returns whether there were any.
    pub(super) fn discard_pending(&mut self, graph: &Graph) -> bool {
        let pending = self.tasks(graph, false);
        for task in pending.iter().filter(|it| it.kind == TaskKind::Pull) {
            self.consume(graph, task.node);
        }
        if !pending.is_empty() {
            self.begin_step();
        }
        !pending.is_empty()
    }

    /// Adds the targets of an input command to the pending tasks.
    ///
    /// If the command sends payloads, they replace the pending payloads, as in LangGraph.
    pub(super) fn apply_command(&mut self, graph: &Graph, targets: &[Target]) {
        self.version += 1;
        if targets.iter().any(|it| matches!(it, Target::Send(..))) {
            self.sends.clear();
        }
        for target in targets {
            self.add_target(graph, target);
        }
    }

    fn begin_step(&mut self) {
        self.version += 1;
        self.scheduled.clear();
        self.fed_joins.clear();
        self.sends.clear();
        self.input = None;
    }

    /// Schedules the nodes that a finished task leads to.
    fn follow(&mut self, graph: &Graph, output: &TaskOutput) {
        let node = graph.node(output.node);
        if !output.handled {
            for target in &node.edges {
                self.schedule(graph, *target);
            }
            for join in &node.outgoing_joins {
                if self.joins.entry(*join).or_default().insert(output.node) {
                    self.fed_joins.push(*join);
                }
            }
        }
        for target in &output.targets {
            self.add_target(graph, target);
        }
    }

    fn add_target(&mut self, graph: &Graph, target: &Target) {
        match target {
            Target::Node(node) => self.schedule(graph, *node),
            Target::Send(node, payload) => self.sends.push((*node, payload.clone())),
        }
    }

    fn schedule(&mut self, graph: &Graph, node: NodeIdx) {
        if is_deferred(graph, node) {
            self.deferred.insert(node);
        } else {
            self.scheduled.push(node);
        }
    }

    /// Removes the triggers of a node that runs: its release from waiting, and the complete joins that lead to it.
    fn consume(&mut self, graph: &Graph, node: NodeIdx) {
        if self.released.is_empty() && self.joins.is_empty() {
            return;
        }
        let released = self.released.remove(&node);
        for join in &graph.node(node).incoming_joins {
            if self.is_complete(graph, *join) && (released || !is_deferred(graph, node)) {
                self.joins.remove(join);
            }
        }
    }

    /// Releases deferred nodes if no other node is scheduled. As in LangGraph, pending payloads do not delay deferred
    /// nodes.
    #[inline]
    fn release_deferred(&mut self, graph: &Graph) {
        let waits = !self.deferred.is_empty() || !self.joins.is_empty();
        if waits && self.scheduled.is_empty() {
            self.release_all_deferred(graph);
        }
    }

    fn release_all_deferred(&mut self, graph: &Graph) {
        // A join is considered only if one of its sources finished in this step. A join that was complete before an
        // edit does not delay deferred nodes.
        let runs = |join: &usize| {
            let target = graph.joins[*join].target;
            target.is_some_and(|it| !is_deferred(graph, it)) && self.is_complete(graph, *join)
        };
        if self.fed_joins.iter().any(runs) {
            return;
        }
        let met = self.complete_joins(graph).map(|it| it.1).filter(|it| is_deferred(graph, *it));
        let met: Vec<_> = met.collect();
        self.released.extend(met);
        self.released.append(&mut self.deferred);
    }

    /// Returns the joins whose sources have all finished, each with its target node.
    fn complete_joins<'a>(
        &'a self,
        graph: &'a Graph,
    ) -> impl Iterator<Item = (usize, NodeIdx)> + 'a {
        let complete = self.joins.keys().filter(|join| self.is_complete(graph, **join));
        complete.filter_map(|join| Some((*join, graph.joins[*join].target?)))
    }

    fn is_complete(&self, graph: &Graph, join: usize) -> bool {
        self.joins.get(&join).is_some_and(|seen| seen.len() == graph.joins[join].sources.len())
    }

    /// Returns the joins for which some, but not all, sources have finished. Each join comes with its missing sources.
    pub(super) fn pending_joins(&self, graph: &Graph) -> Vec<(usize, Vec<NodeIdx>)> {
        let partial = self.joins.iter().filter(|(join, _)| !self.is_complete(graph, **join));
        let missing = |(join, seen): (&usize, &BTreeSet<NodeIdx>)| {
            let sources = graph.joins[*join].sources.iter();
            (*join, sources.filter(|it| !seen.contains(it)).copied().collect())
        };
        partial.map(missing).collect()
    }

    /// Converts the frontier to its stored form.
    pub(super) fn to_record(
        &self,
        graph: &Graph,
        input: impl FnOnce(&StartInput) -> Result<StartRecord, FieldError>,
    ) -> Result<FrontierRecord, FieldError> {
        let name = |node: &NodeIdx| graph.node(*node).label.to_string();
        let names = |nodes: &mut dyn Iterator<Item = &NodeIdx>| nodes.map(name).collect();
        let joins = self
            .joins
            .iter()
            .map(|(join, seen)| (graph.joins[*join].key.clone(), names(&mut seen.iter())));
        let mut sends = Vec::with_capacity(self.sends.len());
        for (node, payload) in &self.sends {
            let payload = payload.to_json().map_err(|error| {
                FieldError::new(name(node), format!("the payload cannot be stored: {error}"))
            })?;
            sends.push(SendRecord { node: name(node), payload });
        }
        let mut scheduled = self.scheduled.clone();
        scheduled.sort_unstable();
        scheduled.dedup();
        Ok(FrontierRecord {
            version: self.version,
            resumed_version: self.resumed_version,
            ran: names(&mut self.ran.iter()),
            scheduled: names(&mut scheduled.iter()),
            deferred: names(&mut self.deferred.iter()),
            released: names(&mut self.released.iter()),
            joins: joins.collect(),
            sends,
            input: self.input.as_ref().map(input).transpose()?,
            reducers: graph.reducers.clone(),
        })
    }

    /// Restores a stored frontier. Nodes that no longer exist are skipped.
    pub(super) fn from_record(graph: &Graph, record: &FrontierRecord) -> Self {
        let known = |names: &[String]| -> Vec<NodeIdx> {
            names.iter().filter_map(|it| graph.find(it)).collect()
        };
        let joins = graph.joins.iter().enumerate().filter_map(|(index, join)| {
            let seen = known(record.joins.get(&join.key)?).into_iter().collect();
            Some((index, seen))
        });
        let sends = record.sends.iter().filter_map(|send| {
            let payload = Payload::Json(Arc::new(send.payload.clone()));
            Some((graph.find(&send.node)?, payload))
        });
        Self {
            version: record.version,
            resumed_version: record.resumed_version,
            ran: known(&record.ran),
            scheduled: known(&record.scheduled),
            deferred: known(&record.deferred).into_iter().collect(),
            released: known(&record.released).into_iter().collect(),
            joins: joins.collect(),
            fed_joins: Vec::new(),
            sends: sends.collect(),
            input: None,
        }
    }
}

fn is_deferred(graph: &Graph, node: NodeIdx) -> bool {
    graph.node(node).options.defer
}

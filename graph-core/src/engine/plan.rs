//! Plan: what the last step led to becomes the tasks of the next.
//!
//! Pure bookkeeping, without a future in it. Only what the last step touched is looked at, so a step costs the
//! same in a graph of ten thousand nodes as in one of ten.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;

use crate::{
    checkpoint::{Cursor, GotoRecord, SendRecord, StartRecord},
    command::Payload,
    context::TaskKind,
    graph::{Graph, NodeIdx},
    node::AnyUpdate,
    state::FieldError,
};

/// Where a run stands between two steps.
#[derive(Default)]
pub(crate) struct Frontier {
    /// Counts the changes of the thread; with `seen` it tells whether a static stop was passed already.
    pub(crate) version: u64,
    pub(crate) seen: u64,
    /// The nodes that ran in the last step that ran any by an edge.
    pub(crate) ran: Vec<NodeIdx>,
    armed: Vec<NodeIdx>,
    /// Deferred nodes that are led to, and wait.
    held: BTreeSet<NodeIdx>,
    /// Deferred nodes whose turn has come.
    released: BTreeSet<NodeIdx>,
    /// What each join has seen since it fired last.
    joins: BTreeMap<usize, BTreeSet<NodeIdx>>,
    /// Joins that the last step fed.
    fed: Vec<usize>,
    sends: Vec<(NodeIdx, Payload)>,
    pub(crate) input: Option<StartInput>,
}

/// What START writes, and where it goes besides its edges.
pub(crate) struct StartInput {
    pub(crate) update: AnyUpdate,
    pub(crate) gotos: Hops,
}

/// A place to go to, found in the graph.
#[derive(Clone, Debug)]
pub(crate) enum Hop {
    Node(NodeIdx),
    Send(NodeIdx, Payload),
}

impl Hop {
    /// The hop by name, as it is stored.
    pub(crate) fn to_record(&self, graph: &Graph) -> Result<GotoRecord, FieldError> {
        let (node, payload) = match self {
            Self::Node(node) => (node, None),
            Self::Send(node, payload) => (node, Some(payload.to_json())),
        };
        let to = graph.node(*node).label.to_string();
        match payload.transpose() {
            Ok(payload) => Ok(GotoRecord { to, payload }),
            Err(error) => {
                let problem = format_args!("its payload cannot be stored: {error}");
                Err(FieldError::new(to, problem))
            }
        }
    }

    /// The hop of a stored name; `None` if the graph has no such node any more.
    pub(crate) fn from_record(graph: &Graph, record: GotoRecord) -> Option<Self> {
        let node = graph.find(&record.to)?;
        Some(match record.payload {
            None => Self::Node(node),
            Some(payload) => Self::Send(node, Payload::Json(Arc::new(payload))),
        })
    }
}

/// Where a task goes: one place, mostly.
pub(crate) type Hops = SmallVec<[Hop; 1]>;

/// A task to be run: its node, and what sets it apart from others of that node.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) node: NodeIdx,
    pub(crate) kind: TaskKind,
    pub(crate) payload: Option<Payload>,
}

impl Frontier {
    /// The tasks of the next step: payloads as sent, then nodes by name.
    ///
    /// `take` hands the payloads over instead of sharing them.
    pub(crate) fn tasks(&mut self, graph: &Graph, take: bool) -> SmallVec<[Planned; 1]> {
        let mut tasks: SmallVec<[Planned; 1]> = SmallVec::new();
        let push = |(index, (node, payload)): (u32, (NodeIdx, Payload))| Planned {
            node,
            kind: TaskKind::Push(index),
            payload: Some(payload),
        };
        if take {
            tasks.extend((0..).zip(std::mem::take(&mut self.sends)).map(push));
        } else {
            tasks.extend((0..).zip(self.sends.iter().cloned()).map(push));
        }
        let pull = |node| Planned { node, kind: TaskKind::Pull, payload: None };
        let pushes = tasks.len();
        tasks.extend(self.armed.iter().copied().map(pull));
        tasks.extend(self.released.iter().copied().map(pull));
        let joined = self.complete(graph).filter(|(_, target)| !deferred(graph, *target));
        tasks.extend(joined.map(|(_, target)| pull(target)));
        tasks.extend(self.input.as_ref().map(|_| pull(graph.start)));
        if tasks.len() > pushes + 1 {
            tasks[pushes..].sort_unstable_by_key(|it| it.node);
            tasks.dedup_by(|a, b| a.node == b.node && a.kind == b.kind);
        }
        tasks
    }

    /// The node that runs next, if that is one node led to by an edge, and nothing else waits.
    pub(crate) fn only_node(&self) -> Option<NodeIdx> {
        let alone = self.sends.is_empty()
            && self.released.is_empty()
            && self.joins.is_empty()
            && self.input.is_none();
        match self.armed[..] {
            [node] if alone => Some(node),
            _ => None,
        }
    }

    /// Moves on past a step in which one node ran by an edge.
    pub(crate) fn advance_one(&mut self, graph: &Graph, node: NodeIdx, hops: &[Hop]) {
        self.ran.clear();
        self.ran.push(node);
        self.begin_step();
        self.follow(graph, Ways { node, edges: true, hops });
        self.release(graph);
    }

    /// Moves on past a step in which these tasks ran, in task order.
    pub(crate) fn advance<'a, P: Iterator<Item = &'a Planned>>(
        &mut self,
        graph: &Graph,
        ran: impl Fn() -> P,
        ways: impl Iterator<Item = Ways<'a>>,
    ) {
        let pulled = || ran().filter(|it| it.kind == TaskKind::Pull).map(|it| it.node);
        if pulled().next().is_some() {
            self.ran.clear();
            self.ran.extend(pulled());
        }
        for node in pulled() {
            self.consume(graph, node);
        }
        self.begin_step();
        for way in ways {
            self.follow(graph, way);
        }
        self.release(graph);
    }

    /// Moves on past an edit that stands for nodes: what was pending by an edge is dropped.
    pub(crate) fn edit<'a>(&mut self, graph: &Graph, ways: impl Iterator<Item = Ways<'a>>) {
        self.begin_step();
        for way in ways {
            self.follow(graph, way);
        }
        // A deferred node that is led to again waits again.
        let held = &self.held;
        self.released.retain(|it| !held.contains(it));
        self.release(graph);
    }

    /// Gives up a step that came to a conflict: its nodes count as run, and only these ways are followed.
    pub(crate) fn abandon<'a>(&mut self, graph: &Graph, ways: impl Iterator<Item = Ways<'a>>) {
        for task in self.tasks(graph, false) {
            if task.kind == TaskKind::Pull {
                self.consume(graph, task.node);
            }
        }
        self.version += 1;
        self.armed.clear();
        self.input = None;
        let pending = std::mem::take(&mut self.sends);
        for way in ways {
            self.follow(graph, way);
        }
        if self.sends.is_empty() {
            self.sends = pending;
        }
    }

    /// Drops all that is pending; `true` if there was anything.
    pub(crate) fn discard(&mut self, graph: &Graph) -> bool {
        let pending = self.tasks(graph, false);
        for task in pending.iter().filter(|it| it.kind == TaskKind::Pull) {
            self.consume(graph, task.node);
        }
        if !pending.is_empty() {
            self.begin_step();
        }
        !pending.is_empty()
    }

    /// Adds where a command given as input goes, beside what is pending.
    ///
    /// Payloads of the command take the place of those under way, as in LangGraph.
    pub(crate) fn command(&mut self, graph: &Graph, hops: &[Hop]) {
        self.version += 1;
        if hops.iter().any(|it| matches!(it, Hop::Send(..))) {
            self.sends.clear();
        }
        for hop in hops {
            self.hop(graph, hop);
        }
    }

    fn begin_step(&mut self) {
        self.version += 1;
        self.armed.clear();
        self.fed.clear();
        self.sends.clear();
        self.input = None;
    }

    fn follow(&mut self, graph: &Graph, ways: Ways<'_>) {
        let node = graph.node(ways.node);
        if ways.edges {
            for target in &node.edges {
                self.arm(graph, *target);
            }
            for join in &node.feeds {
                if self.joins.entry(*join).or_default().insert(ways.node) {
                    self.fed.push(*join);
                }
            }
        }
        for hop in ways.hops {
            self.hop(graph, hop);
        }
    }

    fn hop(&mut self, graph: &Graph, hop: &Hop) {
        match hop {
            Hop::Node(node) => self.arm(graph, *node),
            Hop::Send(node, payload) => self.sends.push((*node, payload.clone())),
        }
    }

    fn arm(&mut self, graph: &Graph, node: NodeIdx) {
        if deferred(graph, node) {
            self.held.insert(node);
        } else {
            self.armed.push(node);
        }
    }

    /// Takes away what made a node run.
    fn consume(&mut self, graph: &Graph, node: NodeIdx) {
        if self.released.is_empty() && self.joins.is_empty() {
            return;
        }
        let released = self.released.remove(&node);
        for join in &graph.node(node).fed_by {
            if self.is_complete(graph, *join) && (released || !deferred(graph, node)) {
                self.joins.remove(join);
            }
        }
    }

    /// Lets deferred nodes run if no other node would; payloads under way do not hold them back, as in LangGraph.
    fn release(&mut self, graph: &Graph) {
        let waits = !self.held.is_empty() || !self.joins.is_empty();
        if !waits || !self.armed.is_empty() {
            return;
        }
        // Only what this step led to counts: a join that was met before an edit holds nothing back.
        let runs = |join: &usize| {
            let target = graph.joins[*join].target;
            target.is_some_and(|it| !deferred(graph, it)) && self.is_complete(graph, *join)
        };
        if self.fed.iter().any(runs) {
            return;
        }
        let met = self.complete(graph).map(|it| it.1).filter(|it| deferred(graph, *it));
        let met: Vec<_> = met.collect();
        self.released.extend(met);
        self.released.append(&mut self.held);
    }

    /// The joins that have seen all their sources, with where they lead.
    fn complete<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = (usize, NodeIdx)> + 'a {
        let complete = self.joins.keys().filter(|join| self.is_complete(graph, **join));
        complete.filter_map(|join| Some((*join, graph.joins[*join].target?)))
    }

    fn is_complete(&self, graph: &Graph, join: usize) -> bool {
        self.joins.get(&join).is_some_and(|seen| seen.len() == graph.joins[join].sources.len())
    }

    /// The joins that have seen some of their sources and wait for others.
    pub(crate) fn waiting(&self, graph: &Graph) -> Vec<(usize, Vec<NodeIdx>)> {
        let partial = self.joins.iter().filter(|(join, _)| !self.is_complete(graph, **join));
        let missing = |(join, seen): (&usize, &BTreeSet<NodeIdx>)| {
            let sources = graph.joins[*join].sources.iter();
            (*join, sources.filter(|it| !seen.contains(it)).copied().collect())
        };
        partial.map(missing).collect()
    }

    /// The frontier by name, as a checkpoint holds it.
    pub(crate) fn to_cursor(
        &self,
        graph: &Graph,
        input: impl FnOnce(&StartInput) -> Result<StartRecord, FieldError>,
    ) -> Result<Cursor, FieldError> {
        let name = |node: &NodeIdx| graph.node(*node).label.to_string();
        let names = |nodes: &mut dyn Iterator<Item = &NodeIdx>| nodes.map(name).collect();
        let joins = self
            .joins
            .iter()
            .map(|(join, seen)| (graph.joins[*join].key.clone(), names(&mut seen.iter())));
        let mut sends = Vec::with_capacity(self.sends.len());
        for (node, payload) in &self.sends {
            let payload = payload.to_json().map_err(|error| {
                FieldError::new(name(node), format_args!("its payload cannot be stored: {error}"))
            })?;
            sends.push(SendRecord { node: name(node), payload });
        }
        let mut armed = self.armed.clone();
        armed.sort_unstable();
        armed.dedup();
        Ok(Cursor {
            version: self.version,
            seen: self.seen,
            ran: names(&mut self.ran.iter()),
            armed: names(&mut armed.iter()),
            held: names(&mut self.held.iter()),
            released: names(&mut self.released.iter()),
            joins: joins.collect(),
            sends,
            input: self.input.as_ref().map(input).transpose()?,
        })
    }

    /// The frontier a checkpoint holds. Names that the graph has no more are left out.
    pub(crate) fn from_cursor(graph: &Graph, cursor: &Cursor) -> Self {
        let known = |names: &[String]| -> Vec<NodeIdx> {
            names.iter().filter_map(|it| graph.find(it)).collect()
        };
        let joins = graph.joins.iter().enumerate().filter_map(|(index, join)| {
            let seen = known(cursor.joins.get(&join.key)?).into_iter().collect();
            Some((index, seen))
        });
        let sends = cursor.sends.iter().filter_map(|send| {
            let payload = Payload::Json(Arc::new(send.payload.clone()));
            Some((graph.find(&send.node)?, payload))
        });
        Self {
            version: cursor.version,
            seen: cursor.seen,
            ran: known(&cursor.ran),
            armed: known(&cursor.armed),
            held: known(&cursor.held).into_iter().collect(),
            released: known(&cursor.released).into_iter().collect(),
            joins: joins.collect(),
            fed: Vec::new(),
            sends: sends.collect(),
            input: None,
        }
    }
}

/// Where one task leads.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) node: NodeIdx,
    /// Whether the node's edges and joins count; not after its error handler.
    pub(crate) edges: bool,
    pub(crate) hops: &'a [Hop],
}

fn deferred(graph: &Graph, node: NodeIdx) -> bool {
    graph.node(node).options.defer
}

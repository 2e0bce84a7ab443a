//! Edit: changing a thread's state without running a node.

use std::{any::Any, sync::Arc};

use super::{
    Durability, Engine, RunSettings, Writer,
    commit::Writes,
    execute::{Done, failure, route_on_copy},
    inspect::{id_of, planned},
    load::{self, stored_hops, updates},
    plan::{StartInput, Ways},
    records::Records,
};
use crate::{
    RunError,
    checkpoint::{Checkpoint, CheckpointId, Source, TaskRecord},
    context::{Answers, Scope, TaskKind},
    error::Halt,
    graph::{Graph, NodeIdx},
    label::END_NAME,
    node::AnyUpdate,
    run::Control,
};

/// One edit: an update, and what it stands for.
pub(crate) struct Edit {
    pub(crate) update: Option<AnyUpdate>,
    pub(crate) as_node: AsNode,
}

/// What an edit of the state stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsNode {
    /// The node that ran last, if that is one node.
    #[default]
    Last,
    /// The node of this name: its edges and branches decide what runs next.
    Node(String),
    /// Input: START runs next.
    Input,
    /// The end: what is pending is dropped, what is finished counts.
    End,
    /// A copy of the checkpoint beside it.
    Copy,
}

impl AsNode {
    /// The node of this name; `__start__` is START and `__end__` the end.
    pub fn node(name: impl Into<String>) -> Self {
        match name.into() {
            name if name == END_NAME => Self::End,
            name => Self::Node(name),
        }
    }
}

/// Where to edit.
pub(crate) struct Site<'a> {
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) thread: &'a Arc<str>,
    pub(crate) at: Option<CheckpointId>,
    pub(crate) run: Arc<str>,
    pub(crate) deps: Arc<dyn Any + Send + Sync>,
    pub(crate) settings: Arc<RunSettings>,
}

/// Makes one step after the other of edits; all edits of a step count as one step.
pub(crate) async fn edit(site: Site<'_>, steps: Vec<Vec<Edit>>) -> Result<CheckpointId, RunError> {
    let saver = site.graph.checkpointer.clone().ok_or(RunError::NoCheckpointer)?;
    let lease = saver.lease(site.thread).await?;
    let (writer, closer) = Writer::new(saver, Durability::Sync, lease);
    let result = edit_steps(&site, &writer, steps).await;
    closer.close().await;
    result
}

async fn edit_steps(
    site: &Site<'_>,
    writer: &Writer,
    steps: Vec<Vec<Edit>>,
) -> Result<CheckpointId, RunError> {
    let mut at = site.at;
    for step in steps {
        at = Some(edit_step(site, writer, at, step).await?);
    }
    at.ok_or_else(|| RunError::InvalidUpdate("there is no update".to_owned()))
}

async fn edit_step(
    site: &Site<'_>,
    writer: &Writer,
    at: Option<CheckpointId>,
    mut edits: Vec<Edit>,
) -> Result<CheckpointId, RunError> {
    let saved = load::load(site.graph, &writer.saver, site.thread, "", at).await?;
    let mut engine = Engine::new(scope(site, writer), &saved)?;
    let newest = !saved.superseded();
    let checkpoint = saved.into_checkpoint();
    if checkpoint.is_none() {
        // An input to a new thread counts as step -1, an edit as step 0.
        engine.step = 0;
    }
    let special = |it: &Edit| matches!(it.as_node, AsNode::Input | AsNode::End | AsNode::Copy);
    if edits.len() > 1 && edits.iter().any(special) {
        let problem = "an edit as input, as the end or as a copy must be the only one of its step";
        return Err(RunError::InvalidUpdate(problem.to_owned()));
    }
    match edits.first().map(|it| (&it.as_node, it.update.is_some())) {
        None => return Err(RunError::InvalidUpdate("there is no update".to_owned())),
        Some((AsNode::End, false)) => engine.clear(checkpoint.as_ref()).await?,
        Some((AsNode::Input, _)) => {
            let update = edits.remove(0).update.ok_or_else(|| {
                RunError::InvalidUpdate("an edit as input needs values".to_owned())
            })?;
            if checkpoint.is_none() {
                engine.step = -1;
            }
            engine.edit_as_input(update).await?;
        }
        Some((AsNode::Copy, _)) => engine.copy(checkpoint.as_ref()).await?,
        _ => engine.edit_as_nodes(edits, checkpoint.as_ref(), newest).await?,
    }
    Ok(engine.id)
}

fn scope(site: &Site<'_>, writer: &Writer) -> Scope {
    Scope {
        graph: site.graph.clone(),
        run: site.run.clone(),
        thread: Some(site.thread.clone()),
        namespace: String::new(),
        parent: None,
        deps: site.deps.clone(),
        settings: site.settings.clone(),
        store: None,
        cache: None,
        events: None,
        control: Control::default(),
        writer: Some(writer.clone()),
        answers: Arc::new(Answers::default()),
        replay: None,
    }
}

impl Engine {
    /// Drops what is pending; what is finished counts, with its edges.
    async fn clear(&mut self, checkpoint: Option<&Checkpoint>) -> Result<(), RunError> {
        let graph = self.scope.graph.clone();
        self.apply_stored_commands()?;
        let mut plans = checkpoint.map(|it| planned(&graph, it)).unwrap_or_default();
        plans.sort_by_key(|it| match it.kind {
            TaskKind::Push(index) => (true, index),
            _ => (false, it.node),
        });
        let mut done: Vec<(NodeIdx, Done)> = Vec::new();
        for (plan, checkpoint) in plans.iter().zip(checkpoint.into_iter().cycle()) {
            let log = self.records.tasks.get(&id_of(&graph, checkpoint, plan));
            if let Some((writes, gotos)) = log.and_then(|it| it.done.clone()) {
                let updates = updates(&*self.state, writes)?;
                let hops = stored_hops(&graph, gotos);
                done.push((plan.node, Done { updates, hops, ..Done::default() }));
            }
        }
        let mut writes: Vec<_> = done
            .iter_mut()
            .map(|(node, it)| Writes { node: *node, updates: &mut it.updates })
            .collect();
        let committed = self.fold(&mut writes, !plans.is_empty())?;
        let ways = done.iter().map(|(node, it)| Ways { node: *node, edges: true, hops: &it.hops });
        if !plans.is_empty() {
            self.frontier.advance(&graph, || plans.iter(), ways);
        }
        self.save(Source::Update, committed.changes).await
    }

    async fn edit_as_input(&mut self, update: AnyUpdate) -> Result<(), RunError> {
        self.frontier.version += 1;
        self.frontier.input = Some(StartInput { update, gotos: Default::default() });
        self.save(Source::Input, Vec::new()).await
    }

    /// Stores the checkpoint once more, beside itself.
    async fn copy(&mut self, checkpoint: Option<&Checkpoint>) -> Result<(), RunError> {
        let Some(checkpoint) = checkpoint else {
            let problem = "there is no checkpoint to copy";
            return Err(RunError::InvalidUpdate(problem.to_owned()));
        };
        let writer = self.scope.writer.clone().ok_or(RunError::NoCheckpointer)?;
        self.id = CheckpointId::after(self.head);
        self.origin = self.id;
        self.source = Source::Fork;
        self.parent = checkpoint.header.parent;
        let copy = self.new_checkpoint(Vec::new())?;
        Ok(writer.write(vec![copy]).await?)
    }

    /// Writes as if the nodes had returned the updates: their edges and branches fire.
    async fn edit_as_nodes(
        &mut self,
        edits: Vec<Edit>,
        checkpoint: Option<&Checkpoint>,
        newest: bool,
    ) -> Result<(), RunError> {
        let graph = self.scope.graph.clone();
        self.apply_stored_commands()?;
        let mut pending = checkpoint.map(|it| planned(&graph, it)).unwrap_or_default();
        let mut done: Vec<(NodeIdx, Done)> = Vec::new();
        let mut records = Vec::new();
        let several = edits.len() > 1;
        for edit in edits {
            let node = self.node_of(&edit.as_node, several)?;
            let mut result = Done { updates: edit.update.into_iter().collect(), ..Done::default() };
            let writes = self.checked_writes(&result)?;
            let cx = self.task_context(node, TaskKind::Pull);
            if let Err(error) = route_on_copy(&cx, &*self.state, &mut result) {
                let Halt::Failed { source, terminal } = error.halt() else {
                    return Err(RunError::AmbiguousUpdate);
                };
                return Err(failure(&cx, source, terminal));
            }
            // The edit counts as the result of the task it takes the place of, unless the thread has moved on.
            let place = pending.iter().position(|it| newest && it.node == node);
            if let (Some(place), Some(checkpoint)) = (place, checkpoint) {
                let task = id_of(&graph, checkpoint, &pending.remove(place));
                let gotos = result.hops.iter().map(|it| it.to_record(&graph));
                let gotos = gotos.collect::<Result<_, _>>()?;
                let event = self.done_event(writes, gotos);
                records.push(TaskRecord { task, node: cx.node().to_owned(), event });
            }
            done.push((node, result));
        }
        if !records.is_empty() {
            self.record(records).await?;
        }
        let mut writes: Vec<_> = done
            .iter_mut()
            .map(|(node, it)| Writes { node: *node, updates: &mut it.updates })
            .collect();
        let committed = self.fold(&mut writes, true)?;
        let ways = done.iter().map(|(node, it)| Ways { node: *node, edges: true, hops: &it.hops });
        self.frontier.edit(&graph, ways);
        self.save(Source::Update, committed.changes).await
    }

    fn node_of(&self, as_node: &AsNode, several: bool) -> Result<NodeIdx, RunError> {
        let graph = &self.scope.graph;
        match as_node {
            AsNode::Node(name) => graph.find(name).ok_or_else(|| RunError::UnknownNode {
                node: name.clone(),
                nodes: graph.node_names(),
            }),
            AsNode::Last if !several => match self.frontier.ran[..] {
                [] => Ok(graph.start),
                [node] => Ok(node),
                _ => Err(RunError::AmbiguousUpdate),
            },
            AsNode::Last => {
                let problem = "several edits of one step must each say which node they stand for";
                Err(RunError::InvalidUpdate(problem.to_owned()))
            }
            // An edit as input or a copy never comes here; an edit as the end does if it writes something.
            AsNode::End | AsNode::Input | AsNode::Copy => {
                Err(RunError::UnknownNode { node: END_NAME.to_owned(), nodes: graph.node_names() })
            }
        }
    }

    async fn save(
        &mut self,
        source: Source,
        changes: Vec<(String, crate::checkpoint::Change)>,
    ) -> Result<(), RunError> {
        let mut all = std::mem::take(&mut self.carried);
        all.extend(changes);
        self.records = Records::default();
        self.put_checkpoint(source, all, &Default::default()).await
    }
}

//! Edit: changes a thread's state without running a node.

use std::{any::Any, sync::Arc};

use smallvec::SmallVec;

use crate::{
    checkpoint::{
        id::CheckpointId,
        record::TaskRecord,
        saver::Checkpointer,
        stored::{Checkpoint, Source},
        writer::{self, CheckpointWriter, Durability},
    },
    context::{
        resume::ResumeValues,
        settings::RunSettings,
        task::{Scope, TaskKind},
    },
    control::RunControl,
    engine::{
        execute::{Task, route_in_task, run_error},
        inspect::{planned_task_id, planned_tasks},
        load,
        outcome::TaskOutput,
        plan::{PlannedTask, StartInput},
        running::Engine,
        target::{goto_records, stored_targets},
    },
    error::RunError,
    graph::erased::{Graph, NodeIdx},
    label::END_NAME,
    state::{change::Change, erased::AnyUpdate},
};

/// One edit with a type-erased update.
pub(crate) struct ErasedEdit {
    pub(crate) update: Option<AnyUpdate>,
    pub(crate) as_node: AsNode,
}

/// The node or event that an edit of the state is attributed to. It determines which nodes run next.
///
/// ```
/// use graph_core::{AsNode, MemorySaver, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Story { hero: String, text: String }
/// # async fn begin(_: &Story) -> StoryUpdate { Story::update().hero("Ada") }
/// # async fn tell(story: &Story) -> StoryUpdate { Story::update().text(format!("{} sets out.", story.hero)) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Story>::new().node(begin).node(tell).sequence((begin, tell));
/// let graph = graph.checkpointer(MemorySaver::new()).compile()?;
/// let thread = graph.thread("story", ());
/// thread.run(Story::default()).await?;
///
/// // As if `begin` had returned the update: `tell` runs next.
/// thread.update_state(Story::update().hero("Bob"), AsNode::node("begin")).await?;
/// assert_eq!(thread.proceed().await?.state().text, "Bob sets out.");
///
/// // As if the node that ran last, `tell`, had returned it: nothing runs next.
/// thread.update_state(Story::update().hero("Eve"), AsNode::Last).await?;
/// assert!(thread.state().await?.is_some_and(|it| it.next.is_empty()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsNode {
    /// The node that ran last. The edit fails if several nodes ran in the last step.
    #[default]
    Last,
    /// The node with this name. Its edges and branches determine what runs next.
    Node(String),
    /// New input. START runs next.
    Input,
    /// The end of the graph. The edit applies the writes of finished tasks and drops pending tasks.
    End,
    /// A copy. The edit stores a copy of the checkpoint. The copy has the same parent as the original.
    Copy,
}

impl AsNode {
    /// Creates a value that attributes the edit to the node with this name. `__start__` means START, and `__end__`
    /// means the end of the graph.
    pub fn node(name: impl Into<String>) -> Self {
        match name.into() {
            name if name == END_NAME => Self::End,
            name => Self::Node(name),
        }
    }
}

/// The graph of a thread to edit, and the settings for the edit.
pub(crate) struct EditRequest<'a> {
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) thread: &'a Arc<str>,
    /// Empty for the thread's own graph.
    pub(crate) namespace: &'a str,
    pub(crate) at: Option<CheckpointId>,
    pub(crate) run: Arc<str>,
    pub(crate) deps: Arc<dyn Any + Send + Sync>,
    pub(crate) settings: Arc<RunSettings>,
}

/// Applies the edits and returns the id of the last checkpoint. Each inner list forms one step, and the steps are
/// applied in order.
pub(crate) async fn apply_edits(
    request: EditRequest<'_>,
    steps: Vec<Vec<ErasedEdit>>,
) -> Result<CheckpointId, RunError> {
    let saver = request.saver.clone();
    let lease = writer::lease(&*saver, request.thread).await?;
    let (writer, closer) = CheckpointWriter::new(saver, request.thread, Durability::Sync, lease);
    let result = apply_steps(&request, &writer, steps).await;
    closer.close().await;
    result
}

async fn apply_steps(
    request: &EditRequest<'_>,
    writer: &CheckpointWriter,
    steps: Vec<Vec<ErasedEdit>>,
) -> Result<CheckpointId, RunError> {
    let mut at = request.at;
    for step in steps {
        at = Some(apply_step(request, writer, at, step).await?);
    }
    at.ok_or_else(no_edits)
}

fn no_edits() -> RunError {
    RunError::InvalidUpdate("no edits were given; pass at least one edit per step".to_owned())
}

async fn apply_step(
    request: &EditRequest<'_>,
    writer: &CheckpointWriter,
    at: Option<CheckpointId>,
    mut edits: Vec<ErasedEdit>,
) -> Result<CheckpointId, RunError> {
    let EditRequest { graph, thread, namespace, .. } = request;
    let saved = load::load(graph, &writer.saver, thread, namespace, at).await?;
    if saved.checkpoint.is_none() && !namespace.is_empty() {
        let problem = format!(
            "subgraph `{namespace}` of thread `{thread}` has no checkpoint to edit; a subgraph has checkpoints once it \
             has started, unless its persistence is `Persistence::None`"
        );
        return Err(RunError::InvalidUpdate(problem));
    }
    let mut engine = Engine::new(request.graph.clone(), scope(request, writer), &saved)?;
    let newest = !saved.is_superseded();
    let checkpoint = saved.checkpoint;
    if checkpoint.is_none() {
        // A thread that begins with an input begins at step -1. A thread that begins with an edit begins at step 0.
        engine.step = 0;
    }
    let special =
        |it: &ErasedEdit| matches!(it.as_node, AsNode::Input | AsNode::End | AsNode::Copy);
    if edits.len() > 1 && edits.iter().any(special) {
        let problem = "an edit as input, as the end or as a copy must be the only edit in its step";
        return Err(RunError::InvalidUpdate(problem.to_owned()));
    }
    match edits.first().map(|it| (&it.as_node, it.update.is_some())) {
        None => return Err(no_edits()),
        Some((AsNode::End, false)) => engine.apply_as_end(checkpoint.as_ref()).await?,
        Some((AsNode::Input, _)) => {
            let update = edits.remove(0).update.ok_or_else(|| {
                RunError::InvalidUpdate("an edit as input needs an update".to_owned())
            })?;
            if checkpoint.is_none() {
                engine.step = -1;
            }
            engine.apply_as_input(update).await?;
        }
        Some((AsNode::Copy, _)) => engine.copy_checkpoint(checkpoint.as_ref()).await?,
        _ => engine.apply_as_nodes(edits, checkpoint.as_ref(), newest).await?,
    }
    Ok(engine.history.id)
}

fn scope(request: &EditRequest<'_>, writer: &CheckpointWriter) -> Scope {
    Scope {
        initial: request.graph.initial.snapshot(),
        update_from: request.graph.initial.update_from_fn(),
        max_stored_bytes: request.graph.max_stored_bytes,
        run: request.run.clone(),
        thread: Some(request.thread.clone()),
        namespace: request.namespace.to_owned(),
        parent: None,
        deps: request.deps.clone(),
        settings: request.settings.clone(),
        store: None,
        cache: None,
        events: None,
        control: RunControl::default(),
        writer: Some(writer.clone()),
        resume_values: Arc::new(ResumeValues::default()),
        replay: None,
        subgraph_start: None,
        record_target: None,
        host: None,
    }
}

impl Engine {
    /// Drops pending tasks and applies the writes and edges of finished tasks.
    async fn apply_as_end(&mut self, checkpoint: Option<&Checkpoint>) -> Result<(), RunError> {
        self.apply_stored_commands()?;
        let mut plans = checkpoint.map(|it| planned_tasks(&self.graph, it)).unwrap_or_default();
        plans.sort_by_key(PlannedTask::order);
        let mut finished = Vec::new();
        for (plan, checkpoint) in plans.iter().zip(checkpoint.into_iter().cycle()) {
            let log = self.records.tasks.get(&planned_task_id(&self.graph, checkpoint, plan));
            if let Some((writes, gotos)) = log.and_then(|it| it.done.clone()) {
                let output = TaskOutput::new(plan.node, self.state.updates_from(writes)?);
                let targets = stored_targets(&self.graph, gotos);
                finished.push(TaskOutput { targets, ..output });
            }
        }
        let options = self.commit_options(!plans.is_empty());
        let committed = self.state.commit(&self.graph, &mut finished, options)?;
        if !plans.is_empty() {
            self.frontier.advance(&self.graph, plans.iter(), finished.iter());
        }
        self.store_edit(Source::Update, committed.changes).await
    }

    async fn apply_as_input(&mut self, update: AnyUpdate) -> Result<(), RunError> {
        self.frontier.version += 1;
        self.frontier.input = Some(StartInput { update, gotos: Default::default() });
        self.store_edit(Source::Input, Vec::new()).await
    }

    /// Stores a copy of the checkpoint. The copy has the same parent as the original.
    async fn copy_checkpoint(&mut self, checkpoint: Option<&Checkpoint>) -> Result<(), RunError> {
        let Some(checkpoint) = checkpoint else {
            let problem = "the thread has no checkpoint to copy; run the thread first";
            return Err(RunError::InvalidUpdate(problem.to_owned()));
        };
        let writer = self.scope.writer.clone().ok_or(RunError::NoCheckpointer)?;
        self.history.id = CheckpointId::after(self.history.head);
        self.history.origin = self.history.id;
        self.history.source = Source::Fork;
        self.history.parent = checkpoint.header.parent;
        let copy = self.new_checkpoint(self.step, Vec::new())?;
        Ok(writer.write(vec![copy]).await?)
    }

    /// Applies the updates as if the nodes had returned them, so that the nodes' edges and branches fire.
    async fn apply_as_nodes(
        &mut self,
        edits: Vec<ErasedEdit>,
        checkpoint: Option<&Checkpoint>,
        newest: bool,
    ) -> Result<(), RunError> {
        self.apply_stored_commands()?;
        let mut pending = checkpoint.map(|it| planned_tasks(&self.graph, it)).unwrap_or_default();
        let mut finished: Vec<TaskOutput> = Vec::new();
        let mut records = Vec::new();
        let several = edits.len() > 1;
        for edit in edits {
            let node = self.node_of(&edit.as_node, several)?;
            let mut output =
                TaskOutput::new(node, edit.update.into_iter().collect::<SmallVec<_>>());
            let writes = self.checked_writes(&output)?;
            let cx = Arc::new(self.task_context(node, TaskKind::Pull));
            let task = Task { graph: &self.graph, node, cx: &cx };
            route_in_task(task, &*self.state.values, &mut output)
                .await
                .map_err(|error| run_error(&cx, error))?;
            // If the checkpoint is still the newest one, the edit becomes the result of the node's pending task.
            let place = pending.iter().position(|it| newest && it.node == node);
            if let (Some(place), Some(checkpoint)) = (place, checkpoint) {
                let id = planned_task_id(&self.graph, checkpoint, &pending.remove(place));
                let gotos = goto_records(&self.graph, &output.targets)?;
                let event = self.done_event(writes, gotos);
                records.push(TaskRecord { task: id, node: cx.node().to_owned(), event });
            }
            finished.push(output);
        }
        if !records.is_empty() {
            self.record(records).await?;
        }
        let options = self.commit_options(true);
        let committed = self.state.commit(&self.graph, &mut finished, options)?;
        self.frontier.apply_edit(&self.graph, finished.iter());
        self.store_edit(Source::Update, committed.changes).await
    }

    fn node_of(&self, as_node: &AsNode, several: bool) -> Result<NodeIdx, RunError> {
        let graph = &self.graph;
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
                let problem =
                    "if a step has several edits, each must name its node; use `AsNode::node`";
                Err(RunError::InvalidUpdate(problem.to_owned()))
            }
            // `apply_step` has already handled `Input` and `Copy`. `End` gets here only if the edit contains an
            // update.
            AsNode::End | AsNode::Input | AsNode::Copy => {
                Err(RunError::UnknownNode { node: END_NAME.to_owned(), nodes: graph.node_names() })
            }
        }
    }

    async fn store_edit(
        &mut self,
        source: Source,
        changes: Vec<(String, Change)>,
    ) -> Result<(), RunError> {
        let mut all = std::mem::take(&mut self.history.command_changes);
        all.extend(changes);
        self.records.clear();
        self.put_checkpoint(source, all, &Default::default()).await
    }
}

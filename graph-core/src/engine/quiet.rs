//! Quiet steps: one task that nobody watches and whose result nobody stores.
//!
//! These are most steps of most loops, and what the engine costs is what they cost. The parts are the same as
//! those of [`tick`](Engine::tick), put together without what only records, events and several tasks need:
//! about a third of the instructions.

use std::sync::Arc;

use super::{
    Ended, Engine,
    execute::{Done, TaskEnd, end, failure, guarded, route, settle},
};
use crate::{
    RunError,
    context::{TaskContext, TaskKind},
    error::Halt,
    graph::{NodeIdx, Stops},
    node::TaskInput,
    state::{FieldSet, Fold},
};

impl Engine {
    /// Whether nobody watches this run at all.
    pub(super) fn is_quiet(&self) -> bool {
        let (scope, graph, settings) = (&self.scope, &self.scope.graph, &self.scope.settings);
        let nowhere = |call: &Option<Stops>, compiled: &Stops| {
            *call.as_ref().unwrap_or(compiled) == Stops::Nowhere
        };
        scope.writer.is_none()
            && scope.events.is_none()
            && graph.step_timeout.is_none()
            && nowhere(&settings.stop_before, &graph.stop_before)
            && nowhere(&settings.stop_after, &graph.stop_after)
    }

    /// The only task of the next step, if it needs no care.
    pub(super) fn quiet_task(&self) -> Option<NodeIdx> {
        let node = self.frontier.only_node()?;
        let entry = self.scope.graph.node(node);
        let careful = self.first_step
            || self.step > self.stop
            || self.scope.control.is_draining()
            || entry.options.needs_care;
        (!careful).then_some(node)
    }

    /// Runs one task, folds what it wrote and goes where it leads.
    pub(super) async fn quiet_step(&mut self, node: NodeIdx) -> Result<Option<Ended>, RunError> {
        tokio::task::consume_budget().await;
        let cx = self.quiet_context(node);
        let graph = &cx.scope.graph;
        let entry = graph.node(node);
        let body = entry.body.as_ref().expect("START is not led to by an edge");
        let outcome = guarded(body, &cx, TaskInput::State(self.state.snapshot())).await;
        let mut done = match outcome.and_then(|it| settle(it, graph, node)) {
            Ok(done) => done,
            Err(error) => return self.quiet_halt(&cx, end(&cx, error)),
        };
        let mut fold = Fold::default();
        match &mut done.updates[..] {
            [] => {}
            // An update writes a field once, so one alone has nobody to be in conflict with.
            [update] => self.state.fold(update, &mut fold)?,
            _ => fold = self.fold_several(node, &mut done)?,
        }
        if !entry.routers.is_empty()
            && let Err(error) = route(&cx, &*self.state, &mut done)
        {
            return match error.halt() {
                Halt::Failed { source, terminal } => Err(failure(&cx, source, terminal)),
                _ => Err(RunError::InvalidUpdate("a branch cannot ask questions".to_owned())),
            };
        }
        self.quiet_end(&fold);
        self.frontier.advance_one(graph, node, &done.hops);
        self.step += 1;
        self.spare = Some(cx);
        Ok(None)
    }

    fn quiet_context(&mut self, node: NodeIdx) -> Arc<TaskContext> {
        if let Some(mut spare) = self.spare.take()
            && let Some(cx) = Arc::get_mut(&mut spare)
        {
            cx.renew(node, self.step);
            return spare;
        }
        Arc::new(self.task_context(node, TaskKind::Pull))
    }

    #[cold]
    fn fold_several(&mut self, node: NodeIdx, done: &mut Done) -> Result<Fold, RunError> {
        let mode = self.mode(true);
        let writing = [super::commit::Writes { node, updates: &mut done.updates }];
        let mut fold = super::commit::begin(&*self.state, &self.scope.graph, &writing, mode)?;
        for update in &mut done.updates {
            self.state.fold(update, &mut fold)?;
        }
        Ok(fold)
    }

    /// Clears what lives for one step, and notes whether the output changed.
    fn quiet_end(&mut self, fold: &Fold) {
        let graph = &self.scope.graph;
        self.shown = self.shown || fold.changed().intersects(&graph.output);
        if graph.volatile.is_empty() {
            return;
        }
        for field in self.live.iter().filter(|it| !fold.folded().contains(*it)) {
            self.state.clear(field);
        }
        let volatile = |it: &usize| graph.volatile.contains(*it);
        self.live = fold.folded().iter().filter(volatile).collect::<FieldSet>();
    }

    #[cold]
    fn quiet_halt(&self, cx: &TaskContext, end: TaskEnd) -> Result<Option<Ended>, RunError> {
        match end {
            TaskEnd::Done(_) => Ok(None),
            TaskEnd::Failed(error) => Err(*error),
            TaskEnd::Asked(interrupts) => Ok(Some(Ended::Asked(interrupts))),
            TaskEnd::Stopped(stop) => Ok(Some(Ended::Stopped(stop))),
            TaskEnd::Parent(command) if self.scope.parent.is_some() => {
                Ok(Some(Ended::Parent(command)))
            }
            TaskEnd::Parent(_) => Err(RunError::NoParent { node: cx.node().to_owned() }),
        }
    }
}

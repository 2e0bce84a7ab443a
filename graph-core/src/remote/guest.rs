//! Runs a graph as the subgraph of a graph in another process.

use std::{fmt, sync::Arc};

use tokio::{sync::mpsc, time::Instant};

use crate::{
    checkpoint::{
        id::CheckpointId,
        saver::{Checkpointer, Lease},
        writer::CheckpointWriter,
    },
    context::{
        resume::{Replay, ResumeValues},
        settings::RunSettings,
        subgraph_start::SubgraphStart,
        task::{Scope, TaskContext},
    },
    control::RunControl,
    effects::{Interceptor, RemoteInterceptor},
    engine::{
        input::{CommandInput, RunInput},
        outcome::GraphOutcome,
        start,
    },
    error::{Halt, NodeError, RunError},
    graph::{
        compiled::CompiledGraph,
        erased::{Graph, Subgraph},
    },
    remote::{
        host::{goto, goto_records},
        outcome::{RemoteEnd, RemoteFailure, RemoteOutcome},
        start::{RemoteInput, RemoteStart},
    },
    run::driven::Driven,
    state::{State, field::FieldError},
    stream::{Event, EventSender},
};

/// Maximum number of events that wait to be read.
const EVENT_BUFFER: usize = 64;

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Runs the graph as a subgraph of a graph in another process, which sent `start`: see the [module](crate::remote).
    /// The checkpointer of this graph is not used.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn run_remote(&self, start: RemoteStart, deps: C, parent: RemoteParent) -> RemoteRun {
        let RemoteParent { checkpointer, interceptor, control } = parent;
        if let Some(newest) = start.newest_checkpoint() {
            // The new checkpoints of the subgraph must be newer than those that it starts from, even if the clock of
            // this process is behind.
            CheckpointId::advance_past(newest);
        }
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let RemoteStart { run, thread, namespace, persistence, input, .. } = start;
        let (run, thread): (Arc<str>, Option<Arc<str>>) = (Arc::from(run), thread.map(Arc::from));
        let durability = start.settings.durability;
        let stored_in = thread.as_deref().filter(|_| start.stores);
        // The run of the parent holds the lease of the thread.
        let open = |it| CheckpointWriter::new(checkpointer, it, durability, Lease::new(()));
        let (writer, closer) = stored_in.map(open).unzip();
        let resume_values = Arc::new(ResumeValues::new(
            start.resume_value,
            start.resume_values,
            Default::default(),
        ));
        let had_resume_value = resume_values.has_single();
        let subgraph_start = SubgraphStart::from_path(start.checkpoints, &namespace).map(Arc::new);
        let replay = start.replay.map(|it| Arc::new(Replay::new(it.bound, it.visited)));
        let events_to_host = (!start.modes.is_empty())
            .then(|| EventSender::new(sender, &start.modes, true, run.clone()));
        let effects = start.intercepts.then_some(Interceptor::Remote(interceptor));
        let settings = Arc::new(RunSettings { effects, ..start.settings });
        let deps: Arc<C> = Arc::new(deps);
        let scope = |namespace, parent| Scope {
            // The states of the enclosing graphs stay in the other process.
            initial: Arc::new(()),
            update_from: |_, _| Err(FieldError::new("*", "the graph runs in another process")),
            max_stored_bytes: self.erased().max_stored_bytes,
            run: run.clone(),
            thread: thread.clone(),
            namespace,
            parent,
            deps: deps.clone(),
            settings: settings.clone(),
            store: None,
            cache: None,
            events: events_to_host.clone(),
            control: control.clone(),
            writer: writer.clone(),
            resume_values: resume_values.clone(),
            replay: replay.clone(),
            subgraph_start: subgraph_start.clone(),
            record_target: None,
            host: None,
        };
        let mut task = None;
        for outer in start.tasks {
            task = Some(Arc::new(outer.into_context(task, scope)));
        }
        let (graph, runs_in) = (self.erased().clone(), task.clone());
        drop(events_to_host);
        let run = async move {
            let inner = Subgraph::local(graph.clone(), persistence);
            let result = match (task, run_input(&graph, input)) {
                (Some(task), Ok(input)) => {
                    Box::pin(start::run_nested(task, inner, namespace, input)).await
                }
                (_, Err(error)) => Err(error.into()),
                (None, _) => Err(RunError::InvalidUpdate(
                    "the host sent no task that runs the subgraph".to_owned(),
                )),
            };
            let flushed = match &writer {
                Some(writer) => writer.flush().await,
                None => Ok(()),
            };
            if let Some(closer) = closer {
                closer.close().await;
            }
            let end = match (result, flushed) {
                (Ok(outcome), Ok(())) => remote_end(&graph, outcome),
                (Err(error), _) => RemoteEnd::Failed(error.into()),
                (Ok(_), Err(error)) => RemoteEnd::Failed(RunError::from(error).into()),
            };
            RemoteOutcome {
                end,
                took_resume_value: had_resume_value && !resume_values.has_single(),
                visited: replay.map(|it| it.visited()).unwrap_or_default(),
            }
        };
        RemoteRun { driven: Driven::new(Box::pin(run), events), runs_in }
    }
}

/// The services of the process that runs the parent of a subgraph.
#[derive(Clone, Debug)]
pub struct RemoteParent {
    /// Stores checkpoints in the thread of the parent. Used only if the parent stores checkpoints.
    pub checkpointer: Arc<dyn Checkpointer>,
    /// Intercepts external calls. Used only if the run of the parent has an interceptor.
    pub interceptor: Arc<dyn RemoteInterceptor>,
    /// Drains the subgraph when the run of the parent is drained.
    pub control: RunControl,
}

/// A running subgraph of a graph in another process. Reading its events drives the run; dropping it cancels the run.
#[must_use]
pub struct RemoteRun {
    driven: Driven<RemoteOutcome>,
    /// The task that runs the subgraph.
    runs_in: Option<Arc<TaskContext>>,
}

impl RemoteRun {
    /// Returns the next event, or `None` when the run has ended.
    pub async fn next(&mut self) -> Option<Event> {
        self.driven.next().await
    }

    /// Returns when the run last made progress, if a node that encloses the subgraph has an idle timeout.
    pub fn last_heartbeat(&self) -> Option<Instant> {
        let tasks = std::iter::successors(self.runs_in.as_ref(), |it| it.scope.parent.as_ref());
        tasks.filter_map(|it| it.last_heartbeat()).max()
    }

    /// Discards the remaining events and returns the outcome, which must be sent to the process of the parent.
    pub async fn finish(self) -> RemoteOutcome {
        self.driven.finish().await
    }
}

impl fmt::Debug for RemoteRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRun").finish_non_exhaustive()
    }
}

fn run_input(graph: &Graph, input: RemoteInput) -> Result<RunInput, FieldError> {
    Ok(match input {
        RemoteInput::Fresh(writes) => RunInput::Fresh(graph.initial.update_from(writes)?),
        RemoteInput::Continue => RunInput::Continue,
        RemoteInput::Command { writes, gotos } => RunInput::Command(CommandInput {
            update: writes.map(|it| graph.initial.update_from(it)).transpose()?,
            gotos: gotos.into_iter().map(goto).collect(),
            ..CommandInput::default()
        }),
    })
}

fn remote_end(graph: &Graph, outcome: GraphOutcome) -> RemoteEnd {
    let end = match outcome.halt {
        None => graph
            .state_values(&outcome.state)
            .map(|state| RemoteEnd::Done { state, has_output: outcome.has_output }),
        Some(Halt::Interrupted(interrupts)) => Ok(RemoteEnd::Interrupted(interrupts)),
        Some(Halt::Stopped(reason)) => Ok(RemoteEnd::Stopped(reason)),
        Some(Halt::ParentCommand(command)) => {
            let updates = command.updates.iter().map(command.to_writes).collect();
            match (updates, goto_records(&command.gotos)) {
                (Ok(updates), Ok(gotos)) => Ok(RemoteEnd::ParentCommand { updates, gotos }),
                (Err(error), _) => Err(error),
                (_, Err(error)) => Ok(RemoteEnd::Failed(failure(&error))),
            }
        }
    };
    end.unwrap_or_else(|error| RemoteEnd::Failed(RunError::from(error).into()))
}

fn failure(error: &NodeError) -> RemoteFailure {
    RemoteFailure::Node { error: error.to_string(), terminal: error.is_terminal() }
}

//! Runs a compiled graph in a sandbox, as a node of another graph.

mod options;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{
    CompiledGraph, NodeError, State,
    checkpoint::CheckpointId,
    remote::{RemoteCall, RemoteGraph, RemoteOutcome, RemoteRunner, RemoteStart},
};
use tokio::sync::mpsc;

use self::options::SandboxName;
pub use self::options::SandboxOptions;
use crate::{
    Error, FaultCode, Sandbox, Sandboxes, Spec,
    limits::{ExceededLimit, TOO_MANY_OPEN_FILES},
    protocol::{
        self, EVENT_WINDOW,
        message::{GuestCommand, SubgraphStart},
    },
    report::Guarantee,
    run::{access::Access, drive, events::EventReader, host_calls::HostCallHandler, quota::Quota},
    session::{REPLY_TIMEOUT, ReceiveWindow},
};

/// Returns a graph that runs in a sandbox when it is a node of another graph.
///
/// The result can be used wherever a graph can be a subgraph, with the same closures and persistence modes: see
/// [`subgraph`](graph_core::subgraph()), [`subgraph_on_payload`](graph_core::subgraph_on_payload),
/// [`StateGraph::node`](graph_core::StateGraph::node) and [`Context::run_graph`](graph_core::Context::run_graph). The
/// agent must have a graph with the name of `graph`: see [`Agent::graph`](crate::guest::Agent::graph).
///
/// Each invocation runs in its own sandbox, which is deleted when the invocation ends, unless
/// [`SandboxOptions::keep_alive`] is set. Checkpoints, events and interrupts travel to the run of the parent, so its
/// thread, stream and trace are the same as if the subgraph ran in the host's process. If a guest dies, another one
/// resumes from the last stored checkpoint. If no checkpoint is stored, because the run has no checkpointer or
/// [`Durability::Exit`](graph_core::Durability::Exit), the subgraph starts again.
///
/// Drawings of the parent show the graph like any other subgraph, with the label `runs in a sandbox`: collapsed by
/// [`mermaid`](CompiledGraph::mermaid), opened by [`mermaid_expanded`](CompiledGraph::mermaid_expanded).
///
/// The guest is not trusted, so it cannot send commands to the parent unless
/// [`SandboxOptions::allow_parent_commands`] is set.
///
/// The parent's store and cache are not available in the guest. A graph in a guest reaches the outside only through the
/// calls that its [`CallPolicy`](crate::CallPolicy) allows.
///
/// ```no_run
/// use graph_core::{START, State, StateGraph, subgraph};
/// use sandbox_vm::{Sandboxes, Spec, backend::Jail, guest::{self, Agent}, sandboxed};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Debate {
///     topic: String,
///     verdict: String,
/// }
///
/// async fn judge(debate: &Debate) -> DebateUpdate {
///     Debate::update().verdict(format!("{} wins", debate.topic))
/// }
///
/// fn debate() -> Result<graph_core::CompiledGraph<Debate>, graph_core::BuildError> {
///     StateGraph::<Debate>::new().name("debate").node(judge).edge(START, judge).compile()
/// }
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Plan {
///     idea: String,
///     decision: String,
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// guest::enter(|| Agent::new().graph("debate", |_| Ok((debate()?, ()))));
/// let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
/// let decide = subgraph(
///     "decide",
///     &sandboxed(&debate()?, &sandboxes, Spec::new("debate")),
///     |plan: &Plan| Debate { topic: plan.idea.clone(), ..Default::default() },
///     |debate: Debate| Plan::update().decision(debate.verdict),
/// );
/// let graph = StateGraph::<Plan>::new().node(&decide).edge(START, &decide).compile()?;
/// let plan = graph.invoke(Plan { idea: "tea".into(), ..Default::default() }, ()).await?;
/// assert_eq!(plan.decision, "tea wins");
/// # Ok(()) }
/// ```
pub fn sandboxed<S: State, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    sandboxes: &Sandboxes,
    options: impl Into<SandboxOptions>,
) -> RemoteGraph<S> {
    let (sandboxes, options) = (sandboxes.clone(), options.into());
    let name = graph.name().to_owned();
    graph.remote(Arc::new(SandboxRunner { graph: name, sandboxes, options }))
}

/// Runs subgraphs in sandboxes.
#[derive(Debug)]
struct SandboxRunner {
    graph: String,
    sandboxes: Sandboxes,
    options: SandboxOptions,
}

#[async_trait]
impl RemoteRunner for SandboxRunner {
    fn runs_in(&self) -> &str {
        "sandbox"
    }

    fn allows_parent_commands(&self) -> bool {
        self.options.parent_commands
    }

    fn allows_interrupts(&self) -> bool {
        self.options.interrupts
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let (mut start, call) = (call.start().clone(), Arc::new(call));
        let mut left = self.options.max_guests;
        loop {
            left = left.saturating_sub(1);
            match self.run_in_sandbox(&call, start.clone()).await {
                Err(error @ Error::Terminated { .. }) if left > 0 => {
                    tracing::warn!(graph = self.graph, %error, "a guest died; starting another one");
                    start.resume_in_new_process();
                }
                result => return result.map_err(node_error),
            }
        }
    }
}

impl SandboxRunner {
    async fn run_in_sandbox(
        &self,
        call: &Arc<RemoteCall>,
        start: RemoteStart,
    ) -> Result<RemoteOutcome, Error> {
        let mut spec = self.options.spec.clone();
        if self.options.name == SandboxName::Unique {
            // A name has at most 128 characters, and an id has 32.
            let name: String = spec.name.chars().take(95).collect();
            spec.name = format!("{name}-{}", CheckpointId::next());
        }
        let sandbox = DeletedOnDrop(Some(self.sandbox(spec).await?));
        let access = Access::Subgraph(call.clone());
        let result = self.run_in(sandbox.get(), &access, call, start).await;
        if let Some(before_delete) = &self.options.before_delete {
            before_delete.0(sandbox.get().clone()).await;
        }
        let is_done = result.as_ref().is_ok_and(RemoteOutcome::is_done);
        if self.options.keeps_sandbox && is_done {
            self.clear_and_pause(sandbox).await;
        } else {
            sandbox.delete().await;
        }
        if is_done {
            // A completed invocation repeats no tasks, so its answers are no longer needed.
            self.options.policy.forget_thread(&access.journal_scope());
        }
        result
    }

    /// Creates a sandbox, or returns the one that an earlier invocation has kept.
    async fn sandbox(&self, spec: Spec) -> Result<Sandbox, Error> {
        let sandbox = self.sandboxes.create_if_not_exists(spec.clone()).await?;
        if !self.options.keeps_sandbox {
            return Ok(sandbox);
        }
        sandbox.restart_expiry();
        if !sandbox.is_paused() || sandbox.resume().await.is_ok() {
            return Ok(sandbox);
        }
        sandbox.delete().await;
        self.sandboxes.create_if_not_exists(spec).await
    }

    /// Deletes the files of a sandbox and pauses it. Deletes the sandbox if that fails.
    async fn clear_and_pause(&self, sandbox: DeletedOnDrop) {
        let cleared = async {
            for entry in sandbox.get().fs().list("").await? {
                sandbox.get().fs().remove(&entry.name).await?;
            }
            match self.sandboxes.report().has(Guarantee::Pause) {
                true => sandbox.get().pause().await,
                false => Ok(()),
            }
        };
        match cleared.await {
            Ok(()) => {
                let name = sandbox.get().name();
                tracing::debug!(sandbox = name, "kept a sandbox for the next invocation");
                sandbox.release();
            }
            Err(error) => {
                tracing::warn!(graph = self.graph, %error, "cannot keep a sandbox; deleting it");
                sandbox.delete().await;
            }
        }
    }

    async fn run_in(
        &self,
        sandbox: &Sandbox,
        access: &Access,
        call: &Arc<RemoteCall>,
        start: RemoteStart,
    ) -> Result<RemoteOutcome, Error> {
        let session = sandbox.session();
        let _busy = sandbox.mark_busy().await;
        let subgraph = SubgraphStart { graph: self.graph.clone(), start };
        let command = GuestCommand::RunSubgraph(Box::new(subgraph));
        let window = ReceiveWindow::for_graph(EVENT_WINDOW as u64);
        let exchange = match session.start(&command, window).await {
            Ok(exchange) => exchange,
            Err(error) => return Err(sandbox.handle_failure(error).await),
        };
        let handler = Arc::new(HostCallHandler::new(
            session.clone(),
            access.clone(),
            call.checkpointer(),
            self.options.policy.clone(),
            Quota::new(self.options.storage_quota),
        ));
        let (run, credit) = (exchange.id(), exchange.credit());
        let (sender, events) = mpsc::unbounded_channel();
        // The engine replaces the run id.
        let mut events = EventReader::new(events, credit, Arc::from(""));
        let forward = async {
            while let Some(event) = events.next().await {
                if self.options.event_filter.as_ref().is_some_and(|it| !it.0(&event)) {
                    continue;
                }
                if call.forward(event).await.is_err() {
                    session.close_for_violation("it sent an event of another graph");
                }
            }
        };
        let run_to_end = async { tokio::join!(drive(exchange, handler, sender), forward).0 };
        let drain = async {
            call.drained().await;
            let command = GuestCommand::Drain { run };
            // If the guest does not reply, the run fails too.
            let _ = session.request::<()>(&command, REPLY_TIMEOUT).await;
            std::future::pending().await
        };
        let result = tokio::select! {
            result = run_to_end => result,
            result = drain => result,
        };
        let decode = |it: Vec<u8>| Ok(session.decode_reply::<RemoteOutcome>(&it)?);
        match result.and_then(decode) {
            Ok(mut outcome) => {
                outcome.map_error_texts(error_text);
                Ok(outcome)
            }
            Err(error) => Err(sandbox.handle_failure(error).await),
        }
    }
}

/// A sandbox that is deleted when the value is dropped, because the node that uses it was cancelled or timed out.
struct DeletedOnDrop(Option<Sandbox>);

impl DeletedOnDrop {
    fn get(&self) -> &Sandbox {
        self.0.as_ref().expect("the sandbox is taken only by `delete` and `release`")
    }

    async fn delete(mut self) {
        if let Some(sandbox) = self.0.take() {
            sandbox.delete().await;
        }
    }

    /// Keeps the sandbox for the next invocation.
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for DeletedOnDrop {
    fn drop(&mut self) {
        let (sandbox, runtime) = (self.0.take(), tokio::runtime::Handle::try_current());
        if let (Some(sandbox), Ok(runtime)) = (sandbox, runtime) {
            runtime.spawn(async move { sandbox.delete().await });
        }
    }
}

/// Makes the error message of a guest safe to show, and names the limit that caused the error, if it is known.
fn error_text(text: &str) -> String {
    let text = protocol::sanitize(text);
    if !text.contains(TOO_MANY_OPEN_FILES) {
        return text;
    }
    format!("{text}; the graph exceeded the sandbox's limit on {}", ExceededLimit::OpenFiles)
}

/// Converts the failure of a sandbox into an error of the node. Failures that a new sandbox cannot avoid are terminal.
fn node_error(error: Error) -> NodeError {
    let is_terminal = match &error {
        Error::BadSpec { .. } | Error::NoIsolation { .. } | Error::Unsupported { .. } => true,
        Error::Guest { fault, .. } => {
            matches!(fault.code, FaultCode::NotFound | FaultCode::Refused | FaultCode::Terminal)
        }
        _ => false,
    };
    if is_terminal { NodeError::terminal(error) } else { error.into() }
}

#[cfg(test)]
mod tests {
    use super::error_text;

    #[test]
    fn error_of_a_guest_names_the_limit_on_open_files() {
        assert_eq!(error_text("no such file"), "no such file");
        assert_eq!(
            error_text("Too many open files (os error 24)"),
            "Too many open files (os error 24); the graph exceeded the sandbox's limit on open files"
        );
    }
}

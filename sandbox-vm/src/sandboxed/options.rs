//! Options for graphs that run in sandboxes.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use graph_core::Event;

use crate::{CallPolicy, Sandbox, Spec, run::quota};

/// Options for [`sandboxed`](super::sandboxed). A [`Spec`] converts into options that allow no external calls.
///
/// ```
/// use sandbox_vm::{CallError, CallPolicy, SandboxOptions, Spec};
/// use serde_json::{Value, json};
///
/// // The graph may make up to 40 model calls, and two replacements of a dead guest are allowed.
/// let policy = CallPolicy::new(async |_: String, _: Value| Ok::<_, CallError>(json!("Hello!")));
/// let options = SandboxOptions::new(Spec::new("debate").memory(512 << 20))
///     .call_policy(policy.allow("llm.chat").budget(40))
///     .max_guests(3);
/// // Pass them to `sandboxed(&graph, &sandboxes, options)`.
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SandboxOptions {
    pub(super) spec: Spec,
    pub(super) name: SandboxName,
    pub(super) keeps_sandbox: bool,
    pub(super) policy: CallPolicy,
    pub(super) max_guests: u32,
    pub(super) storage_quota: u64,
    pub(super) parent_commands: bool,
    pub(super) interrupts: bool,
    pub(super) event_filter: Option<Callback<dyn Fn(&Event) -> bool + Send + Sync>>,
    pub(super) before_delete: Option<Callback<dyn Fn(Sandbox) -> BoxFuture + Send + Sync>>,
}

/// How the sandboxes of the invocations are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SandboxName {
    /// The name of the spec with a unique suffix.
    Unique,
    /// The name of the spec.
    Exact,
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A function that the caller passes in the options. Cheap to clone.
pub(super) struct Callback<F: ?Sized>(pub(super) Arc<F>);

impl<F: ?Sized> Clone for Callback<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: ?Sized> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

impl SandboxOptions {
    /// Creates options that allow no external calls. Each sandbox gets the name of `spec` with a unique suffix.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            name: SandboxName::Unique,
            keeps_sandbox: false,
            policy: CallPolicy::deny_all(),
            max_guests: 3,
            storage_quota: quota::DEFAULT_BYTES,
            parent_commands: false,
            interrupts: true,
            event_filter: None,
            before_delete: None,
        }
    }

    /// Gives each sandbox exactly the name of the spec, without a suffix. Invocations with the same name must not run
    /// concurrently.
    ///
    /// If a sandbox with the name and the same spec is running, the first guest of an invocation uses it. The caller
    /// can therefore create the sandbox in advance, for example to handle a failed creation. The sandbox is deleted
    /// when the invocation ends, like any other. A guest that replaces a dead one always gets a new sandbox.
    pub fn exact_name(mut self) -> Self {
        self.name = SandboxName::Exact;
        self
    }

    /// Keeps the sandbox after a successful invocation, so that the next invocation starts without a new guest. The
    /// sandbox has exactly the name of the spec: see [`exact_name`](Self::exact_name). Its files are deleted. It is
    /// paused if the back end supports that, so it takes memory but no CPU time.
    ///
    /// The sandbox is deleted when it has been idle for longer than its spec allows, when an invocation fails or is
    /// cancelled, or when the last clone of [`Sandboxes`](crate::Sandboxes) is dropped. Its lifetime restarts with each
    /// invocation.
    ///
    /// If one invocation compromises the guest, the guest can falsify the results of later invocations. Keep sandboxes
    /// only if all invocations trust each other.
    pub fn keep_alive(mut self) -> Self {
        self.keeps_sandbox = true;
        self.exact_name()
    }

    /// Sets a filter for the events of the graph. An event for which it returns `false` does not reach the stream of
    /// the parent's run. By default, all events reach it.
    ///
    /// The filter is called once for each event that a guest sends, in order, including the events of replacement
    /// guests. The guest is not trusted, so the filter should check the content of the events and limit their number.
    pub fn event_filter(mut self, filter: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Self {
        self.event_filter = Some(Callback(Arc::new(filter)));
        self
    }

    /// Calls a function before a sandbox is deleted, for example to copy files out of it. The invocation ends when the
    /// returned future is complete.
    ///
    /// The function is also called after a failure. If the guest has died, its files are lost, and reading them fails.
    /// It is not called if the node is cancelled.
    pub fn before_delete<F: Future<Output = ()> + Send + 'static>(
        mut self,
        function: impl Fn(Sandbox) -> F + Send + Sync + 'static,
    ) -> Self {
        self.before_delete = Some(Callback(Arc::new(move |it| Box::pin(function(it)))));
        self
    }

    /// Sets the policy for the graph's external calls. All invocations share its limits.
    pub fn call_policy(mut self, policy: impl Into<CallPolicy>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Sets the maximum number of guests for each attempt of an invocation: the first one and its replacements. The
    /// default is 3.
    pub fn max_guests(mut self, guests: u32) -> Self {
        self.max_guests = guests.max(1);
        self
    }

    /// Limits the number of bytes that each guest may store: see [`GraphRun::storage_quota`](crate::GraphRun).
    pub fn storage_quota(mut self, bytes: u64) -> Self {
        self.storage_quota = bytes;
        self
    }

    /// Allows the graph to send commands to its parent graph: see [`Command::parent`](graph_core::Command::parent). By
    /// default, such a command fails the node.
    ///
    /// A command can write any field of the parent's state and start any of its nodes with any payload, without passing
    /// through the closure `output`. Allow commands only if the parent checks what it receives, or if the code in the
    /// guest is trusted.
    pub fn allow_parent_commands(mut self) -> Self {
        self.parent_commands = true;
        self
    }

    /// Fails the sandboxed node if the graph is interrupted or stops before or after one of its nodes. By default, both
    /// suspend the run of the parent.
    ///
    /// Use this option if the host's copy of the graph has neither interrupts nor stops, because an untrusted guest
    /// could otherwise suspend the run. A node that calls [`Context::run_graph`](graph_core::Context::run_graph) can
    /// then handle the error like any other failure of the graph.
    pub fn deny_interrupts(mut self) -> Self {
        self.interrupts = false;
        self
    }
}

impl From<Spec> for SandboxOptions {
    fn from(spec: Spec) -> Self {
        Self::new(spec)
    }
}

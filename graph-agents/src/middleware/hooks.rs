//! The middleware interface.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use graph_core::{Context, NodeError};

use crate::{
    AgentState,
    command::{JumpTo, Update},
    model::{ModelAnswer, ModelHandler, ModelRequest, SharedModel},
    state::StateField,
    tool::{Tool, ToolAnswer, ToolHandler, ToolRequest},
};

/// Hooks into an agent's loop. Implement the methods that [`hooks`](Self::hooks) declares.
///
/// The first four hooks are nodes of the agent's graph, named after the middleware and the hook. Such a hook can
/// interrupt the run or fail it, and a checkpointer stores a checkpoint after it. The wrappers run inside the nodes
/// `model` and `tools`; the first middleware is the outermost.
///
/// ```
/// use async_trait::async_trait;
/// use graph_agents::middleware::{Hooks, Middleware};
/// use graph_agents::{AgentState, Message, Update};
/// use graph_core::{Context, NodeError};
///
/// /// Reminds the model of the rules before each call.
/// #[derive(Debug)]
/// struct Reminder;
///
/// #[async_trait]
/// impl Middleware for Reminder {
///     fn name(&self) -> String {
///         "Reminder".to_owned()
///     }
///
///     fn hooks(&self) -> Hooks {
///         Hooks::new().before_model([])
///     }
///
///     async fn before_model(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
///         Ok(Some(Update::new().messages([Message::human("Remember the rules.")])))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as middleware of an agent",
    label = "this type does not implement `Middleware`",
    note = "implement it, with `#[async_trait]` on the `impl`, or use a type of the module `graph_agents::middleware`"
)]
#[async_trait]
pub trait Middleware: fmt::Debug + Send + Sync {
    /// Returns the name. All middleware of an agent must have different names.
    fn name(&self) -> String;

    /// Declares which hooks the middleware implements.
    fn hooks(&self) -> Hooks;

    /// Returns the fields that the middleware adds to the agent's state.
    fn state_fields(&self) -> Vec<StateField> {
        Vec::new()
    }

    /// Returns the tools that the middleware adds.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// Runs once, before the loop.
    async fn before_agent(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
        Ok(None)
    }

    /// Runs before each model call.
    async fn before_model(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
        Ok(None)
    }

    /// Runs after each model call.
    async fn after_model(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
        Ok(None)
    }

    /// Runs once, after the loop.
    async fn after_agent(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
        Ok(None)
    }

    /// Runs around each model call.
    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        next.call(request).await
    }

    /// Runs around each tool call.
    async fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        next.call(request).await
    }

    /// Wraps a model. Called for each model of the agent, and for each model that other middleware calls directly, for
    /// example to write summaries. The wrapped calls of the agent run inside [`wrap_model_call`](Self::wrap_model_call)
    /// of all middleware. The first middleware is the outermost.
    fn wrap_model(&self, model: SharedModel) -> SharedModel {
        model
    }

    /// Returns a copy whose own model calls go through `wrap`. Returns `None` if the middleware calls no models.
    ///
    /// Middleware that calls models must implement this method, so that its calls count against a
    /// [`MoneyBudget`](super::MoneyBudget) and are recorded by [`RecordReplay`](super::RecordReplay).
    fn with_wrapped_models(&self, wrap: &ModelWrapper) -> Option<Arc<dyn Middleware>> {
        let _ = wrap;
        None
    }
}

/// Wraps a model; see [`Middleware::with_wrapped_models`].
pub type ModelWrapper = Arc<dyn Fn(SharedModel) -> SharedModel + Send + Sync>;

/// Combines [`Middleware::wrap_model`] of the middleware that declares it. The first one is the outermost. Returns
/// `None` if no middleware declares it.
pub(crate) fn model_wrapper(middleware: &[Arc<dyn Middleware>]) -> Option<ModelWrapper> {
    let wrapping = middleware.iter().filter(|it| it.hooks().replaces_models);
    let wrapping: Vec<_> = wrapping.cloned().collect();
    if wrapping.is_empty() {
        return None;
    }
    Some(Arc::new(move |model: SharedModel| {
        wrapping.iter().rev().fold(model, |model, it| it.wrap_model(model))
    }))
}

/// The hooks that a middleware implements. Each hook that runs as a node lists the targets that it may jump to.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Hooks {
    pub(crate) before_agent: Option<Vec<JumpTo>>,
    pub(crate) before_model: Option<Vec<JumpTo>>,
    pub(crate) after_model: Option<Vec<JumpTo>>,
    pub(crate) after_agent: Option<Vec<JumpTo>>,
    pub(crate) wraps_model: bool,
    pub(crate) wraps_tools: bool,
    pub(crate) replaces_models: bool,
}

impl Hooks {
    /// Declares no hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares [`Middleware::before_agent`] and the targets that it may jump to.
    pub fn before_agent(mut self, jumps: impl IntoIterator<Item = JumpTo>) -> Self {
        self.before_agent = Some(jumps.into_iter().collect());
        self
    }

    /// Declares [`Middleware::before_model`] and the targets that it may jump to.
    pub fn before_model(mut self, jumps: impl IntoIterator<Item = JumpTo>) -> Self {
        self.before_model = Some(jumps.into_iter().collect());
        self
    }

    /// Declares [`Middleware::after_model`] and the targets that it may jump to.
    pub fn after_model(mut self, jumps: impl IntoIterator<Item = JumpTo>) -> Self {
        self.after_model = Some(jumps.into_iter().collect());
        self
    }

    /// Declares [`Middleware::after_agent`] and the targets that it may jump to.
    pub fn after_agent(mut self, jumps: impl IntoIterator<Item = JumpTo>) -> Self {
        self.after_agent = Some(jumps.into_iter().collect());
        self
    }

    /// Declares [`Middleware::wrap_model_call`].
    pub fn wrap_model_call(mut self) -> Self {
        self.wraps_model = true;
        self
    }

    /// Declares [`Middleware::wrap_tool_call`].
    pub fn wrap_tool_call(mut self) -> Self {
        self.wraps_tools = true;
        self
    }

    /// Declares [`Middleware::wrap_model`].
    pub fn wrap_model(mut self) -> Self {
        self.replaces_models = true;
        self
    }
}

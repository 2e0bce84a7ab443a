//! Middleware hooks that run as nodes.

use graph_core::{
    Context, JsonStateSchema, NodeError,
    json::{JsonInput, JsonReturn},
};

use crate::{
    AgentState,
    command::{JumpTo, Update},
    message::Message,
    middleware::{Hooks, Middleware},
};

/// A middleware hook that runs as a node of the agent's graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    BeforeAgent,
    BeforeModel,
    AfterModel,
    AfterAgent,
}

impl Hook {
    pub(super) const ALL: [Self; 4] =
        [Self::BeforeAgent, Self::BeforeModel, Self::AfterModel, Self::AfterAgent];

    /// Returns the declared jumps, or `None` if the middleware does not implement the hook.
    pub(super) fn jumps(self, hooks: &Hooks) -> Option<&Vec<JumpTo>> {
        match self {
            Self::BeforeAgent => hooks.before_agent.as_ref(),
            Self::BeforeModel => hooks.before_model.as_ref(),
            Self::AfterModel => hooks.after_model.as_ref(),
            Self::AfterAgent => hooks.after_agent.as_ref(),
        }
    }

    /// Returns the name of the node.
    pub(super) fn node_name(self, middleware: &str) -> String {
        let hook = match self {
            Self::BeforeAgent => "before_agent",
            Self::BeforeModel => "before_model",
            Self::AfterModel => "after_model",
            Self::AfterAgent => "after_agent",
        };
        format!("{middleware}.{hook}")
    }
}

/// Runs a hook as a node.
pub(super) async fn run_hook(
    middleware: &dyn Middleware,
    hook: Hook,
    input: &JsonInput,
    context: &Context,
    schema: &JsonStateSchema,
) -> Result<JsonReturn, NodeError> {
    let state = AgentState::from_input(input)?;
    let update = match hook {
        Hook::BeforeAgent => middleware.before_agent(&state, context).await,
        Hook::BeforeModel => middleware.before_model(&state, context).await,
        Hook::AfterModel => middleware.after_model(&state, context).await,
        Hook::AfterAgent => middleware.after_agent(&state, context).await,
    };
    let Some(update) = update? else { return Ok(JsonReturn::Nothing) };
    stream_messages(&update, &state, &[], context).await;
    Ok(JsonReturn::Update(update.into_json(schema).map_err(NodeError::terminal)?))
}

/// Sends the messages of an update to the message stream, except those that the state already contains or that were
/// streamed before.
pub(super) async fn stream_messages(
    update: &Update,
    state: &AgentState,
    streamed: &[String],
    context: &Context,
) {
    if !context.streams_messages() {
        return;
    }
    for message in update.written_messages().unwrap_or_default() {
        let was_streamed = message.id().is_some_and(|id| streamed.iter().any(|it| it == id));
        let is_known = || state.messages().iter().any(|it| it.id() == message.id());
        if !was_streamed && !matches!(message, Message::Remove { .. }) && !is_known() {
            context.message(message).await;
        }
    }
}

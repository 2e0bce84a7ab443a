//! Returns malformed tool calls to the model.

use async_trait::async_trait;
use graph_core::{Context, NodeError};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentState,
    command::{JumpTo, Update},
    id::new_id,
    message::{AiMessage, Message, last_ai},
};

/// Asks the model again if all tool calls of its message are malformed.
///
/// Without this middleware, such a message ends the run like an answer, and the model learns of the malformed calls in
/// the next run. If a message also has valid calls, the agent itself answers the malformed ones.
///
/// ```
/// use graph_agents::{Agent, AiMessage, InvalidToolCall, ScriptedModel, middleware::ReturnMalformedCalls};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let malformed = InvalidToolCall {
///     name: Some("weather".into()),
///     args: Some("{city: Rome".into()),
///     id: Some("call-1".into()),
/// };
/// let first = AiMessage { invalid_tool_calls: vec![malformed], ..AiMessage::new("") };
/// let model = ScriptedModel::new([first, AiMessage::new("I cannot call the tool.")]);
/// let agent = Agent::new(model).middleware(ReturnMalformedCalls::new(2)).compile()?;
/// assert_eq!(agent.run("Does it rain?").await?.text(), "I cannot call the tool.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReturnMalformedCalls {
    max_retries: usize,
}

impl ReturnMalformedCalls {
    /// Creates the middleware. After `max_retries` consecutive messages with only malformed calls, the next one ends
    /// the run.
    pub fn new(max_retries: usize) -> Self {
        Self { max_retries }
    }
}

impl Default for ReturnMalformedCalls {
    fn default() -> Self {
        Self::new(2)
    }
}

fn is_malformed(message: &AiMessage) -> bool {
    message.tool_calls.is_empty() && !message.invalid_tool_calls.is_empty()
}

#[async_trait]
impl Middleware for ReturnMalformedCalls {
    fn name(&self) -> String {
        "ReturnMalformedCalls".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().after_model([JumpTo::Model])
    }

    async fn after_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let Some((newest, _)) = last_ai(state.messages()) else { return Ok(None) };
        let since_user = state.messages().iter().rev();
        let since_user = since_user.take_while(|it| !matches!(it, Message::Human(_)));
        let in_a_row = since_user.filter_map(Message::as_ai).take_while(|it| is_malformed(it));
        if !is_malformed(newest) || in_a_row.count() > self.max_retries {
            return Ok(None);
        }
        // Before the next model call, the agent answers each malformed call that has an id.
        let mut newest = newest.clone();
        for call in &mut newest.invalid_tool_calls {
            call.id.get_or_insert_with(new_id);
        }
        Ok(Some(Update::new().messages([Message::Ai(newest)]).jump(JumpTo::Model)))
    }
}

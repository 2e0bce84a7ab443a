//! The node that calls the model.

use graph_core::{
    Context, JsonStateSchema, NodeError,
    json::{JsonInput, JsonReturn},
};
use serde_json::{Map, Value};

use super::{
    hook_node::stream_messages,
    repair::{is_malformed, malformed_in_a_row, repair},
};
use crate::{
    AgentState,
    command::{Command, Update},
    dependencies::Dependencies,
    lock::lock,
    message::{Content, Message},
    model::{ModelAnswer, ModelHandler, ModelRequest, RequestTool, SharedModel},
    response::ResponseFormat,
    state::{MALFORMED_CALLS, STRUCTURED_RESPONSE},
};

/// The node that calls the model.
#[derive(Debug)]
pub(super) struct ModelNode {
    pub(super) model: SharedModel,
    pub(super) system: Option<Content>,
    pub(super) tools: Vec<RequestTool>,
    pub(super) response: Option<ResponseFormat>,
    pub(super) handler: ModelHandler,
    pub(super) schema: JsonStateSchema,
    pub(super) dependencies: Dependencies,
    /// Settings of all model calls.
    pub(super) settings: Map<String, Value>,
    /// Whether to count consecutive messages with only malformed tool calls.
    pub(super) counts_malformed_calls: bool,
}

impl ModelNode {
    pub(super) async fn run(
        &self,
        input: &JsonInput,
        context: Context,
    ) -> Result<JsonReturn, NodeError> {
        let state = AgentState::from_input(input)?;
        let repaired = repair(state.messages());
        let messages = repaired.clone().map_or_else(|| state.messages().clone(), Into::into);
        let request = ModelRequest {
            model: self.model.clone(),
            system: self.system.clone(),
            messages,
            tools: self.tools.clone(),
            tool_choice: None,
            response_format: self.response.clone(),
            settings: self.settings.clone(),
            state: state.clone(),
            context: context.clone(),
            dependencies: self.dependencies.clone(),
            streamed: std::sync::Arc::default(),
        };
        let streamed = request.streamed.clone();
        let answer = self.handler.fresh().call_with_commands(request).await?;
        let (update, commands) = self.update(repaired, answer, &state);
        let streamed = lock(&streamed).clone();
        stream_messages(&update, &state, &streamed, &context).await;
        if commands.is_empty() {
            return Ok(JsonReturn::Update(
                update.into_json(&self.schema).map_err(NodeError::terminal)?,
            ));
        }
        let all = [Command::new().update(update)].into_iter().chain(commands);
        let all = all.map(|it| it.into_graph_command(&self.schema)).collect::<Result<_, _>>()?;
        Ok(JsonReturn::Commands(all))
    }

    fn update(
        &self,
        repaired: Option<Vec<Message>>,
        answer: ModelAnswer,
        state: &AgentState,
    ) -> (Update, Vec<Command>) {
        let malformed = malformed_in_a_row(state);
        let malformed_now = match answer.ai().is_some_and(is_malformed) {
            true => malformed + 1,
            false => 0,
        };
        let replaced = repaired.map(|it| [vec![Message::remove_all()], it].concat());
        let messages = replaced.into_iter().flatten().chain(answer.messages);
        let mut update = Update::new().messages(messages);
        if self.response.is_some() {
            update = update.set(STRUCTURED_RESPONSE, answer.structured.unwrap_or(Value::Null));
        }
        if self.counts_malformed_calls && malformed_now != malformed {
            update = update.set(MALFORMED_CALLS, malformed_now);
        }
        (update, answer.commands)
    }
}

//! A to-do list that the model maintains.

use async_trait::async_trait;
use graph_core::{Context, JsonFieldKind, NodeError};
use serde_json::{Value, json};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentState,
    command::{Command, Update},
    message::{Content, Message, Status, ToolMessage, last_ai, text_block},
    model::{ModelAnswer, ModelHandler, ModelRequest},
    notation,
    state::StateField,
    tool::Tool,
};

const TOOL: &str = "write_todos";
const TODOS: &str = "todos";
const SYSTEM_PROMPT: &str = "\
Use the tool `write_todos` to plan work that needs three or more steps. Mark a step as in progress before you start it \
and as completed as soon as it is done. Do not use the tool for simple requests, and never call it more than once at a \
time.";
const TOOL_DESCRIPTION: &str = "\
Replaces the to-do list. Each item has a content and a status: pending, in_progress or completed.";
const PARALLEL: &str = "Error: The `write_todos` tool should never be called multiple times in parallel. Please call it \
                        only once per model invocation to update the todo list.";

/// Gives the model a tool to maintain a to-do list, in the state field `todos`.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, middleware::TodoList};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let todos = json!([{"content": "Boil water", "status": "in_progress"}]);
/// let call = ToolCall::new("write_todos", json!({"todos": todos}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Started.")]);
/// let agent = Agent::new(model).middleware(TodoList::new()).compile()?;
/// let outcome = agent.run("Make tea.").await?;
/// assert_eq!(outcome.state.get("todos"), Some(&todos));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct TodoList {
    system_prompt: String,
    tool_description: String,
}

impl Default for TodoList {
    fn default() -> Self {
        Self {
            system_prompt: SYSTEM_PROMPT.to_owned(),
            tool_description: TOOL_DESCRIPTION.to_owned(),
        }
    }
}

impl TodoList {
    /// Creates the middleware.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the text that is added to the system prompt.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = prompt.into();
        self
    }

    /// Sets the description of the tool.
    #[must_use]
    pub fn tool_description(mut self, description: impl Into<String>) -> Self {
        self.tool_description = description.into();
        self
    }
}

fn schema() -> Value {
    let item = json!({
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "status": {"enum": ["pending", "in_progress", "completed"]},
        },
        "required": ["content", "status"],
    });
    json!({"properties": {TODOS: {"type": "array", "items": item}}, "required": [TODOS]})
}

#[async_trait]
impl Middleware for TodoList {
    fn name(&self) -> String {
        "TodoListMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call().after_model([])
    }

    fn state_fields(&self) -> Vec<StateField> {
        vec![StateField::new(TODOS, JsonFieldKind::Last).visible(false, true)]
    }

    fn tools(&self) -> Vec<Tool> {
        let tool =
            Tool::dynamic(TOOL, &self.tool_description, schema(), |mut args, runtime| async move {
                let todos = args.remove(TODOS).unwrap_or_default();
                let text = format!("Updated todo list to {}", notation::python(&todos));
                let answer = ToolMessage::success(runtime.call(), text);
                Command::new().update(Update::new().set(TODOS, todos).messages([answer]))
            });
        vec![tool.reads_state(false)]
    }

    async fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let mut blocks = request.system.take().map(Content::into_blocks).unwrap_or_default();
        let separator = if blocks.is_empty() { "" } else { "\n\n" };
        blocks.push(text_block(&format!("{separator}{}", self.system_prompt)));
        request.system = Some(Content::Blocks(blocks));
        next.call(request).await
    }

    async fn after_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let Some((newest, _)) = last_ai(state.messages()) else { return Ok(None) };
        let calls: Vec<_> = newest.tool_calls.iter().filter(|it| it.name == TOOL).collect();
        if calls.len() < 2 {
            return Ok(None);
        }
        let errors = calls.iter().map(|call| ToolMessage {
            content: PARALLEL.into(),
            tool_call_id: call.id().to_owned(),
            status: Status::Error,
            ..ToolMessage::default()
        });
        Ok(Some(Update::new().messages(errors.map(Message::from))))
    }
}

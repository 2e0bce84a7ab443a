//! The node that executes tool calls.

mod execute;
mod validate;

use std::{borrow::Cow, fmt, slice, sync::Arc};

use futures_util::future::try_join_all;
use graph_core::{
    Context, JsonStateSchema, NodeError,
    json::{JsonInput, JsonReturn},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentError, AgentState,
    command::{Command, Update},
    dependencies::Dependencies,
    message::{AiMessage, Message, ToolCall, ToolMessage},
    tool::{InputKind, Tool, ToolAnswer, ToolErrors, ToolHandler, ToolRequest, ToolWrapper},
};

/// Executes the tool calls of the newest AI message concurrently, and answers in the order of the calls.
///
/// ```
/// use graph_agents::{
///     AiMessage, MessagesState, MessagesStateUpdate, ToolCall, ToolNode, ToolResults, tool,
/// };
/// use graph_core::{Context, NodeError, START, StateGraph};
/// use serde_json::json;
///
/// /// Adds two numbers.
/// #[tool]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// async fn tools(state: &MessagesState, cx: &Context) -> Result<MessagesStateUpdate, NodeError> {
///     let results = ToolNode::new([add()]).run_messages(state.messages.clone(), cx).await?;
///     match results {
///         ToolResults::Messages(messages) => Ok(MessagesState::update().messages(messages)),
///         _ => Err("these tools return no commands".into()),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<MessagesState>::new().node(tools).edge(START, tools).compile()?;
/// let call = AiMessage::new("").tool_call(ToolCall::new("add", json!({"a": 2, "b": 3}), "call-1"));
/// let state = graph.invoke(MessagesState { messages: vec![call.into()] }, ()).await?;
/// assert_eq!(state.messages[1].text(), "5");
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ToolNode {
    tools: Arc<[Tool]>,
    errors: ToolErrors,
    /// The first wrapper is the outermost.
    wrappers: Vec<ToolWrapper>,
    handler: ToolHandler,
    dependencies: Dependencies,
}

impl fmt::Debug for ToolNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolNode").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// A tool call sent to the node, with the state that the tool may read.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SentCall<'a> {
    pub(crate) tool_call: Cow<'a, ToolCall>,
    pub(crate) state: Cow<'a, Map<String, Value>>,
}

impl SentCall<'static> {
    /// Reads a call from the input of the node. Returns `None` if the input is not a call but a state.
    fn from_input(input: &JsonInput) -> Option<serde_json::Result<Self>> {
        let call = input.get("tool_call")?;
        let state = input.get("state").map_or_else(|| Ok(Map::new()), Map::deserialize);
        let sent =
            |tool_call| Ok(Self { tool_call: Cow::Owned(tool_call), state: Cow::Owned(state?) });
        Some(ToolCall::deserialize(call).and_then(sent))
    }
}

/// The results of a tool node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ToolResults {
    /// One message per call, in the order of the calls.
    Messages(Vec<ToolMessage>),
    /// One command per result, because at least one tool answered with a command.
    Commands(Vec<Command>),
}

impl ToolNode {
    /// Creates a node with these tools. If two tools have the same name, the later one replaces the earlier one.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self::build(unique(tools).into(), ToolErrors::default(), Vec::new())
    }

    /// Sets which errors the node answers with a message to the model instead of failing.
    pub fn errors(self, errors: ToolErrors) -> Self {
        Self { dependencies: self.dependencies, ..Self::build(self.tools, errors, self.wrappers) }
    }

    /// Wraps the execution of each call. The first wrapper is the outermost.
    pub fn wrap(mut self, wrapper: ToolWrapper) -> Self {
        self.wrappers.push(wrapper);
        let dependencies = self.dependencies;
        Self { dependencies, ..Self::build(self.tools, self.errors, self.wrappers) }
    }

    /// Sets the dependencies of the tools.
    pub fn dependencies(mut self, dependencies: Dependencies) -> Self {
        self.dependencies = dependencies;
        self
    }

    pub(crate) fn build(
        tools: Arc<[Tool]>,
        errors: ToolErrors,
        wrappers: Vec<ToolWrapper>,
    ) -> Self {
        let innermost = execute::handler(tools.clone(), errors.clone());
        let wrap = |inner: ToolHandler, it: &ToolWrapper| inner.wrapped_by(it.clone());
        let handler = wrappers.iter().rev().fold(innermost, wrap);
        Self { tools, errors, wrappers, handler, dependencies: Dependencies::default() }
    }

    /// Returns the tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|it| it.name() == name)
    }

    /// Runs as a node of a graph with a JSON state. The input is the state, or a tool call that was sent to the node.
    pub async fn run(
        &self,
        input: JsonInput,
        context: Context,
        schema: &JsonStateSchema,
    ) -> Result<JsonReturn, NodeError> {
        let results = match SentCall::from_input(&input) {
            Some(sent) => {
                let sent = sent.map_err(NodeError::terminal)?;
                let state = AgentState::from_fields(sent.state.into_owned())?;
                let calls = slice::from_ref(&*sent.tool_call);
                self.run_calls(calls, &state, &context, InputKind::State).await?
            }
            None => self.run_state(&AgentState::from_input(&input)?, &context).await?,
        };
        results.stream(&context).await;
        results.into_return(schema)
    }

    /// Executes the calls of the newest AI message of a state.
    pub async fn run_state(
        &self,
        state: &AgentState,
        context: &Context,
    ) -> Result<ToolResults, NodeError> {
        let calls = newest_calls(state.messages())?;
        self.run_calls(calls, state, context, InputKind::State).await
    }

    /// Executes the calls of the newest AI message of a list.
    pub async fn run_messages(
        &self,
        messages: Vec<Message>,
        context: &Context,
    ) -> Result<ToolResults, NodeError> {
        let state = AgentState::from_messages(messages);
        let calls = newest_calls(state.messages())?;
        self.run_calls(calls, &state, context, InputKind::List).await
    }

    /// Executes these calls.
    pub async fn run_tool_calls(
        &self,
        calls: &[ToolCall],
        state: &AgentState,
        context: &Context,
    ) -> Result<ToolResults, NodeError> {
        self.run_calls(calls, state, context, InputKind::State).await
    }

    async fn run_calls(
        &self,
        calls: &[ToolCall],
        state: &AgentState,
        context: &Context,
        input: InputKind,
    ) -> Result<ToolResults, NodeError> {
        let answers = calls.iter().map(|call| self.answer(call, state, context, input));
        Ok(ToolResults::collect(try_join_all(answers).await?))
    }

    async fn answer(
        &self,
        call: &ToolCall,
        state: &AgentState,
        context: &Context,
        input: InputKind,
    ) -> Result<ToolAnswer, NodeError> {
        let tool = self.tool(&call.name);
        let request = ToolRequest {
            call: call.clone(),
            tool: tool.cloned(),
            state: state.clone(),
            context: context.clone(),
            dependencies: self.dependencies.clone(),
            input,
        };
        let answer = self.handler.call(request).await;
        answer.or_else(|error| execute::answer_error(&self.errors, tool, call, error))
    }
}

/// Keeps the last tool of each name, at the position of the first.
pub(crate) fn unique(tools: impl IntoIterator<Item = Tool>) -> Vec<Tool> {
    let mut unique: Vec<Tool> = Vec::new();
    for tool in tools {
        match unique.iter_mut().find(|it| it.name() == tool.name()) {
            Some(earlier) => *earlier = tool,
            None => unique.push(tool),
        }
    }
    unique
}

fn newest_calls(messages: &[Message]) -> Result<&[ToolCall], AgentError> {
    if messages.is_empty() {
        return Err(AgentError::value("No message found in input"));
    }
    let newest: Option<&AiMessage> = messages.iter().rev().find_map(Message::as_ai);
    let newest = newest.ok_or_else(|| AgentError::value("No AIMessage found in input"))?;
    Ok(&newest.tool_calls)
}

impl ToolResults {
    fn collect(answers: Vec<ToolAnswer>) -> Self {
        let mut flat = Vec::new();
        answers.into_iter().for_each(|it| flatten(it, &mut flat));
        if flat.iter().all(|it| matches!(it, ToolAnswer::Message(_))) {
            let message = |it| match it {
                ToolAnswer::Message(message) => Some(message),
                ToolAnswer::Command(_) | ToolAnswer::Many(_) => None,
            };
            return Self::Messages(flat.into_iter().filter_map(message).collect());
        }
        let command = |it| match it {
            ToolAnswer::Command(command) => Some(command),
            ToolAnswer::Message(message) => {
                Some(Command::new().update(Update::new().messages([message])))
            }
            ToolAnswer::Many(_) => None,
        };
        Self::Commands(flat.into_iter().filter_map(command).collect())
    }

    /// Sends the messages to the message stream. Messages in commands to a parent graph are not sent.
    pub(crate) async fn stream(&self, context: &Context) {
        if !context.streams_messages() {
            return;
        }
        let messages: Vec<Message> = match self {
            Self::Messages(messages) => messages.iter().cloned().map(Message::Tool).collect(),
            Self::Commands(commands) => {
                let own = commands.iter().filter(|it| !it.parent);
                own.flat_map(Command::written_messages).collect()
            }
        };
        for message in messages {
            if !matches!(message, Message::Remove { .. }) {
                context.message(message).await;
            }
        }
    }

    /// Converts the results into the return value of a node with a JSON state.
    pub fn into_return(self, schema: &JsonStateSchema) -> Result<JsonReturn, NodeError> {
        match self {
            Self::Messages(messages) => {
                let update = Update::new().messages(messages);
                Ok(JsonReturn::Update(update.into_json(schema).map_err(NodeError::terminal)?))
            }
            Self::Commands(commands) => {
                let commands = commands.into_iter().map(|it| it.into_graph_command(schema));
                Ok(JsonReturn::Commands(commands.collect::<Result<_, _>>()?))
            }
        }
    }
}

fn flatten(answer: ToolAnswer, flat: &mut Vec<ToolAnswer>) {
    match answer {
        ToolAnswer::Many(answers) => answers.into_iter().for_each(|it| flatten(it, flat)),
        single => flat.push(single),
    }
}

/// Chooses the node after the last message: `tools` if it is an AI message with tool calls, otherwise `__end__`.
///
/// ```
/// use graph_agents::{AiMessage, Message, ToolCall, tools_condition};
/// use serde_json::json;
///
/// let call = ToolCall::new("weather", json!({"city": "Rome"}), "call-1");
/// let mut messages = vec![Message::human("Does it rain?"), AiMessage::new("").tool_call(call).into()];
/// assert_eq!(tools_condition(&messages)?, "tools");
/// messages.push(Message::ai("No."));
/// assert_eq!(tools_condition(&messages)?, "__end__");
/// # Ok::<(), graph_agents::AgentError>(())
/// ```
pub fn tools_condition(messages: &[Message]) -> Result<&'static str, AgentError> {
    let last = messages
        .last()
        .ok_or_else(|| AgentError::value("No messages found in input state to tool_edge"))?;
    let calls = last.as_ai().is_some_and(|it| !it.tool_calls.is_empty());
    Ok(if calls { "tools" } else { "__end__" })
}

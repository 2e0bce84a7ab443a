//! Tool calls for models that have been trained without tools.

use async_trait::async_trait;
use graph_core::NodeError;
use serde_json::{Map, Value, json};

use super::chat::{
    ChatModel, ChunkSink, ModelProfile, ModelTool, OutputSchema, Prompt, ToolChoice, structured,
};
use crate::{
    AgentError,
    id::new_id,
    message::{AiMessage, Content, InvalidToolCall, Message, MessageList, ToolCall},
};

/// Lets a model without native tool calls use tools.
///
/// The prompt describes the tools, and the provider restricts each response to a JSON Schema that allows either a tool
/// call or an answer. The provider must therefore support schemas. Local servers such as llama.cpp's support them for
/// every model. One response contains at most one call.
///
/// ```
/// use graph_agents::{Agent, LlmModel, Tool, model::PromptedTools};
/// use llm::{Llm, Scripted};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let replies = [json!({"tool": "weather", "arguments": {}}), json!({"answer": "It rains."})];
/// let model = LlmModel::new(Llm::new(Scripted::replies("small", replies)));
/// let weather = Tool::dynamic("weather", "Returns the weather.", json!({}), |_, _| async { "rain" });
/// let agent = Agent::new(PromptedTools::new(model)).tools([weather]).compile()?;
/// assert_eq!(agent.run("How is the weather?").await?.text(), "It rains.");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct PromptedTools<M> {
    model: M,
}

impl<M: ChatModel> PromptedTools<M> {
    /// Wraps a model.
    pub fn new(model: M) -> Self {
        Self { model }
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for PromptedTools<M> {
    fn profile(&self) -> ModelProfile {
        self.model.profile()
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let used_tools = |it: &Message| it.as_tool().is_some();
        if prompt.tools.is_empty() && !prompt.messages.iter().any(used_tools) {
            return self.model.call(prompt, chunks).await;
        }
        let schema = OutputSchema { name: "step".to_owned(), schema: schema(prompt), strict: None };
        let prompted = Prompt {
            messages: messages(prompt),
            settings: prompt.settings.clone(),
            ..Prompt::default()
        };
        to_message(&structured(&self.model, &prompted, &schema).await?)
    }
}

/// Returns the schema of the allowed responses.
fn schema(prompt: &Prompt) -> Value {
    let is_allowed = |tool: &str| match &prompt.tool_choice {
        None | Some(ToolChoice::Any) => true,
        Some(ToolChoice::None) => false,
        Some(ToolChoice::Tool(name)) => tool == name,
    };
    let may_answer = matches!(prompt.tool_choice, None | Some(ToolChoice::None));
    let mut definitions = Map::new();
    let mut options = Vec::new();
    for tool in prompt.tools.iter().filter(|it| is_allowed(it.name())) {
        if let ModelTool::Function { name, parameters, .. } = tool {
            let mut parameters = Value::clone(parameters);
            // References start at the root, so the definitions must be there.
            if let Some(Value::Object(own)) =
                parameters.as_object_mut().and_then(|it| it.remove("$defs"))
            {
                definitions.extend(own);
            }
            options.push(object(&[("tool", json!({ "const": name })), ("arguments", parameters)]));
        }
    }
    if may_answer || options.is_empty() {
        options.push(object(&[("answer", json!({ "type": "string" }))]));
    }
    let mut schema =
        if options.len() == 1 { options.remove(0) } else { json!({ "anyOf": options }) };
    if !definitions.is_empty() {
        schema["$defs"] = Value::Object(definitions);
    }
    schema
}

fn object(properties: &[(&str, Value)]) -> Value {
    let names: Vec<_> = properties.iter().map(|it| it.0).collect();
    let properties: Map<_, _> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({
        "type": "object", "properties": properties, "required": names, "additionalProperties": false,
    })
}

/// Returns the conversation with a description of the tools, in which calls and results are text.
fn messages(prompt: &Prompt) -> MessageList {
    let mut system = "Answer with JSON. To use a tool, write {\"tool\": NAME, \"arguments\": ARGUMENTS}. To answer, write \
                      {\"answer\": TEXT}. Tools:"
        .to_owned();
    for tool in &prompt.tools {
        if let ModelTool::Function { name, description, parameters, .. } = tool {
            system += &format!("\n{name}: {description} Arguments: {}", parameters["properties"]);
        }
    }
    let is_system = |it: &&Message| it.kind() == "system";
    let instructions = prompt.messages.iter().filter(is_system).map(Message::text);
    for text in prompt.system.iter().map(Content::text).chain(instructions) {
        system = format!("{text}\n\n{system}");
    }
    let rest = prompt.messages.iter().filter(|it| !is_system(it)).map(|message| match message {
        Message::Ai(it) => Message::ai(step_text(it)),
        Message::Tool(it) => {
            let name = it.name.as_deref().unwrap_or_default();
            let text = it.content.text();
            Message::human(format!("Result of {name}: {text} Now answer the question."))
        }
        other => other.clone(),
    });
    [Message::system(system)].into_iter().chain(rest).collect()
}

/// Converts a message from the model to the JSON form that the prompt requests.
fn step_text(message: &AiMessage) -> String {
    match (message.tool_calls.first(), message.invalid_tool_calls.first()) {
        (Some(call), _) => json!({ "tool": call.name, "arguments": call.args }),
        (None, Some(call)) => json!({ "tool": call.name, "arguments": call.args }),
        (None, None) => json!({ "answer": message.content.text() }),
    }
    .to_string()
}

fn to_message(step: &Value) -> Result<AiMessage, NodeError> {
    if let Some(answer) = step["answer"].as_str() {
        return Ok(AiMessage::new(answer));
    }
    match step["tool"].as_str() {
        Some(name) => Ok(call_message(name, &step["arguments"])),
        None => Err(AgentError::value(format!(
            "the model returned neither a tool call nor an answer: {step}; check that its server restricts responses to \
             a schema, and that its token limit is high enough"
        ))
        .into()),
    }
}

/// Creates a message with a tool call, which is invalid if the arguments are not an object. `null` means that there are
/// no arguments.
fn call_message(name: &str, arguments: &Value) -> AiMessage {
    if arguments.is_object() || arguments.is_null() {
        return AiMessage::new("").tool_call(ToolCall::new(name, arguments.clone(), new_id()));
    }
    let call = InvalidToolCall {
        name: Some(name.to_owned()),
        args: Some(arguments.to_string()),
        id: Some(new_id()),
        error: Some("the arguments are not a JSON object".to_owned()),
        opaque: None,
    };
    AiMessage { invalid_tool_calls: vec![call], ..AiMessage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_not_an_object_make_a_call_invalid() {
        let message = to_message(&json!({ "tool": "weather", "arguments": ["Rome"] })).unwrap();
        assert!(message.tool_calls.is_empty());
        assert_eq!(message.invalid_tool_calls[0].args.as_deref(), Some("[\"Rome\"]"));
        let step: Value = serde_json::from_str(&step_text(&message)).unwrap();
        assert_eq!(step, json!({ "tool": "weather", "arguments": "[\"Rome\"]" }));
        let message = to_message(&json!({ "tool": "weather", "arguments": {} })).unwrap();
        assert_eq!(message.tool_calls.len(), 1);
    }
}

//! Scripted models, which record the prompts that they receive.

use std::sync::Mutex;

use async_trait::async_trait;
use graph_agents::{
    AgentError, AiMessage, ChatModel, InvalidToolCall, Message, ToolCall,
    model::{ChunkSink, ModelProfile, ModelTool, Prompt, ToolChoice},
};
use graph_core::NodeError;
use serde_json::{Value, json};

use super::log::{SharedLog, lock};

/// Name of the schema for the selection of tools by a model.
const TOOL_SELECTION: &str = "ToolSelectionResponse";

/// Returns the scripted replies of a model. Its description is a list, or an object with the list in `script`.
pub(super) fn replies(spec: &Value) -> &[Value] {
    let script = spec.as_array().or_else(|| spec["script"].as_array());
    script.map(Vec::as_slice).unwrap_or_default()
}

/// A scripted model of a case.
#[derive(Debug)]
pub(super) struct CaseModel {
    name: String,
    hide: bool,
    profile: ModelProfile,
    replies: Mutex<std::collections::VecDeque<Value>>,
    log: SharedLog,
}

impl CaseModel {
    pub(super) fn new(name: &str, spec: &Value, log: SharedLog) -> Self {
        let profile = &spec["profile"];
        Self {
            name: name.to_owned(),
            hide: spec["hide"] == true,
            profile: ModelProfile {
                structured_output: profile["structured_output"] == true,
                max_input_tokens: profile["max_input_tokens"].as_u64().map(|it| it as usize),
            },
            replies: Mutex::new(replies(spec).iter().cloned().collect()),
            log,
        }
    }

    fn next_reply(&self, prompt: &Prompt) -> Result<Value, NodeError> {
        let system = prompt.system.clone().map(Message::system);
        let messages: Vec<_> = system.iter().chain(&prompt.messages).collect();
        let mut call = json!({"model": self.name, "messages": messages});
        if self.hide {
            call["messages"] = json!("<hidden>");
        }
        call["tools"] = prompt.tools.iter().map(ModelTool::name).collect();
        match &prompt.tool_choice {
            None => {}
            Some(ToolChoice::Any) => call["tool_choice"] = json!("any"),
            Some(ToolChoice::None) => call["tool_choice"] = json!("none"),
            Some(ToolChoice::Tool(name)) => call["tool_choice"] = json!(name),
        }
        // The recorded calls for the selection of tools do not contain the schema.
        let output = prompt.output.as_ref().filter(|it| it.name != TOOL_SELECTION);
        if let Some(output) = output {
            call["response_format"] = json!({"name": output.name});
            if let Some(strict) = output.strict {
                call["response_format"]["strict"] = json!(strict);
            }
        }
        if !prompt.settings.is_empty() {
            call["settings"] = Value::Object(prompt.settings.clone());
        }
        lock(&self.log).model_calls.push(call);
        let reply = self.replies.lock().expect("no other holder panics").pop_front();
        let reply = reply.ok_or_else(|| AgentError::named("IndexError", "script exhausted"))?;
        match reply["error"].as_str() {
            Some(message) => {
                let class = reply["class"].as_str().unwrap_or("ValueError").to_owned();
                Err(AgentError::named(class, message).into())
            }
            None => Ok(reply),
        }
    }
}

#[async_trait]
impl ChatModel for CaseModel {
    fn profile(&self) -> ModelProfile {
        self.profile
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let reply = self.next_reply(prompt)?;
        if let Some(value) = reply.get("structured") {
            return Ok(AiMessage::new(value.to_string()));
        }
        let message = ai_message(&reply);
        if let Some(parts) = reply["chunks"].as_array() {
            for (index, part) in parts.iter().enumerate() {
                let mut chunk = AiMessage::new(part.as_str().unwrap_or_default());
                if index + 1 == parts.len() {
                    chunk.tool_calls.clone_from(&message.tool_calls);
                }
                chunks.send(chunk).await;
            }
        }
        Ok(message)
    }
}

/// Converts a scripted reply to a message.
pub(super) fn ai_message(reply: &Value) -> AiMessage {
    let read = |key: &str| reply.get(key).cloned().unwrap_or_else(|| json!([]));
    let content = match &reply["content"] {
        Value::Array(blocks) => blocks.clone().into(),
        text => text.as_str().unwrap_or_default().into(),
    };
    let mut invalid_tool_calls: Vec<InvalidToolCall> =
        serde_json::from_value(read("invalid_tool_calls")).expect("valid calls");
    // The recorded messages omit the reason.
    invalid_tool_calls.iter_mut().for_each(|it| it.error = None);
    AiMessage {
        content,
        id: reply["id"].as_str().map(str::to_owned),
        name: reply["name"].as_str().map(str::to_owned),
        tool_calls: serde_json::from_value::<Vec<ToolCall>>(read("tool_calls"))
            .expect("valid calls"),
        invalid_tool_calls,
        usage: usage(&reply["usage"]),
        ..AiMessage::default()
    }
}

/// Converts token counts from the case format to [`llm::Usage`].
pub(super) fn usage(usage: &Value) -> Option<llm::Usage> {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    usage.is_object().then(|| llm::Usage {
        input: count("input"),
        output: count("output"),
        ..llm::Usage::default()
    })
}

//! The agent of juncture.

use async_trait::async_trait;
use juncture::{
    llm::{BoxStream, CallOptions, ChatModel, LlmError, Message, MessageChunk, ToolCall},
    prebuilt::{MessagesState, create_react_agent},
    tools::{Tool, ToolError},
};
use peer_support::{
    data::{self, Texts},
    protocol::Job,
};
use serde_json::{Value, json};

use crate::run;

pub fn prepare(calls: usize, texts: Texts) -> Job {
    let agent = create_react_agent(FakeModel { calls, texts }, vec![Box::new(Search(texts))]);
    let input = || MessagesState { messages: vec![Message::human("hi?")] };
    run(agent.expect("the agent is valid"), input, |it| {
        data::describe(it.messages.iter().map(Message::content_text))
    })
}

/// A model that calls the tool once per turn until it has called it often enough.
#[derive(Clone, Debug)]
struct FakeModel {
    calls: usize,
    texts: Texts,
}

#[async_trait]
impl ChatModel for FakeModel {
    async fn invoke(
        &self,
        messages: &[Message],
        _: Option<&CallOptions>,
    ) -> Result<Message, LlmError> {
        let turn = messages.len() / 2;
        if turn >= self.calls {
            return Ok(Message::ai(self.texts.answer()));
        }
        let arguments = json!({"query": self.texts.query(turn)});
        let call = ToolCall { id: turn.to_string(), name: "search".to_owned(), arguments };
        Ok(Message::ai_with_tool_calls("", vec![call]))
    }

    async fn stream(
        &self,
        _: &[Message],
        _: Option<&CallOptions>,
    ) -> Result<BoxStream<'_, Result<MessageChunk, LlmError>>, LlmError> {
        Err(LlmError::Other("the scripted model does not stream".into()))
    }

    fn bind_tools(&self, _: Vec<juncture::llm::ToolDefinition>) -> Self {
        self.clone()
    }

    fn model_name(&self) -> &str {
        "fake"
    }
}

struct Search(Texts);

#[async_trait]
impl Tool for Search {
    fn name(&self) -> &str {
        "search"
    }

    fn description(&self) -> &str {
        "Searches."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        })
    }

    async fn invoke(&self, input: Value) -> Result<String, ToolError> {
        Ok(self.0.result(input["query"].as_str().unwrap_or_default()))
    }
}

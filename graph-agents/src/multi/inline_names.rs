//! A model that sees the names of agents in the content of messages.

use async_trait::async_trait;
use graph_core::NodeError;

use crate::{
    message::{AiMessage, Message},
    model::{ChatModel, ChunkSink, ModelProfile, Prompt, SharedModel},
};

/// Wraps a model, which then sees `<name>..</name><content>..</content>` as the content of each AI message that has a
/// name.
#[derive(Debug)]
pub(super) struct InlineNames {
    model: SharedModel,
}

impl InlineNames {
    pub(super) fn new(model: SharedModel) -> Self {
        Self { model }
    }
}

fn with_names(prompt: &Prompt) -> Prompt {
    let mut prompt = prompt.clone();
    for message in prompt.messages.iter_mut() {
        if let Message::Ai(AiMessage { name: Some(name), content, .. }) = message {
            *content = format!("<name>{name}</name><content>{}</content>", content.text()).into();
        }
    }
    prompt
}

/// Returns the text between two tags.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    Some(rest.split_once(close)?.0)
}

#[async_trait]
impl ChatModel for InlineNames {
    fn profile(&self) -> ModelProfile {
        self.model.profile()
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let mut answer = self.model.call(&with_names(prompt), chunks).await?;
        let text = answer.content.text();
        if let Some(content) =
            between(&text, "<content>", "</content>").filter(|_| text.contains("<name>"))
        {
            answer.content = content.into();
        }
        Ok(answer)
    }
}

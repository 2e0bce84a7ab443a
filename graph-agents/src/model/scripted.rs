//! A model with prepared answers.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use graph_core::NodeError;

use super::chat::{ChatModel, ChunkSink, Prompt};
use crate::{AgentError, message::AiMessage};

/// A model that returns prepared answers in order, for tests and examples.
#[derive(Debug)]
pub struct ScriptedModel {
    answers: Mutex<VecDeque<AiMessage>>,
}

impl ScriptedModel {
    /// Creates a model with these answers.
    pub fn new<M: Into<AiMessage>>(answers: impl IntoIterator<Item = M>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().map(Into::into).collect()) }
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    async fn call(&self, _: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let used_up =
            || AgentError::value("the scripted model has no answers left; add more answers");
        Ok(answers.pop_front().ok_or_else(used_up)?)
    }
}

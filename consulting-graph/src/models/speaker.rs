//! Somebody who speaks in place of a run's models, under their names: a replay knows calls by the models of the run.

use async_trait::async_trait;
use llm::{Error, Listener, Llm, Model, ModelId, Request, Response};

/// A model under another's name.
#[derive(Debug)]
pub(super) struct SpeakingAs {
    pub(super) id: ModelId,
    pub(super) speaker: Llm,
}

#[async_trait]
impl Model for SpeakingAs {
    fn id(&self) -> ModelId {
        self.id.clone()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        self.speaker.call(request, listener).await
    }
}

//! A model that answers under the name of another model. A recording identifies calls by model name, so a model that
//! replaces the configured ones must keep their names.

use async_trait::async_trait;
use llm::{Error, Listener, Llm, Model, ModelId, Request, Response};

/// A model that reports `id` as its name and forwards all calls to `inner`.
#[derive(Debug)]
pub(super) struct ModelAlias {
    pub(super) id: ModelId,
    pub(super) inner: Llm,
}

#[async_trait]
impl Model for ModelAlias {
    fn id(&self) -> ModelId {
        self.id.clone()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        self.inner.call(request, listener).await
    }
}

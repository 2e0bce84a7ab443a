//! Embeddings over HTTP.

use async_trait::async_trait;
use tokio::time::timeout;

use super::{HttpModel, errors::timed_out};
use crate::{EmbeddingModel, Embeddings, Error, ModelId, Phase, codec::CallError};

/// Maximum number of texts in one request; the lowest limit of the providers.
const MAX_BATCH: usize = 100;

/// An embedding model that is called over HTTP.
#[derive(Debug)]
pub(crate) struct HttpEmbeddings {
    pub(crate) model: HttpModel,
    /// Requested length of the vectors.
    pub(crate) dimensions: Option<u32>,
}

#[async_trait]
impl EmbeddingModel for HttpEmbeddings {
    fn id(&self) -> ModelId {
        self.model.id.clone()
    }

    async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        let mut all = Embeddings::default();
        for batch in texts.chunks(MAX_BATCH) {
            let total = self.model.timeouts.total;
            let embeddings = match timeout(total, self.exchange(batch)).await {
                Ok(result) => result?,
                Err(_) => return Err(self.model.error(timed_out(Phase::Total, total), None)),
            };
            all.vectors.extend(embeddings.vectors);
            all.usage = match (all.usage, embeddings.usage) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
        Ok(all)
    }
}

impl HttpEmbeddings {
    async fn exchange(&self, texts: &[String]) -> Result<Embeddings, Error> {
        let HttpModel { id, protocol, endpoint, client, .. } = &self.model;
        let without_status = |error: CallError| self.model.error(error, None);
        let wire = protocol.encode_embeddings(&id.model, texts, self.dimensions);
        let call = endpoint.request(client, &wire.map_err(without_status)?);
        let mut body = self.model.send(call).await.map_err(without_status)?;
        let status = body.status();
        let embeddings = async {
            body.check_status().await?;
            protocol.decode_embeddings(&body.read_all().await?, texts.len())
        };
        embeddings.await.map_err(|error| self.model.error(error, Some(status.as_u16())))
    }
}

//! The response cache.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use graph_core::{
    FieldWrite,
    cache::{Cache, CacheKey, CachedResult},
    checkpoint::TaskId,
};
use tokio::time::Instant;

use super::key::Key;
use crate::{Error, Finish, Listener, Llm, Model, ModelId, Money, Request, Response, Usage};

/// Name of the field that stores the response.
const FIELD: &str = "response";

impl Llm {
    /// Answers repeated requests from a cache.
    ///
    /// Accepts any cache that graphs use for the results of their nodes: in memory, in a SQLite file, or in PostgreSQL.
    /// Responses are stored under the node name `llm:provider/model`; use this name to clear them. Only complete
    /// responses are stored, not those that reached the token limit.
    ///
    /// A cached response reports zero tokens and zero cost.
    pub fn cache(self, cache: Arc<dyn Cache>) -> Self {
        Self::new(CachedModel { inner: self, cache, lifetime: None })
    }

    /// Like [`cache`](Self::cache), but entries expire after `lifetime`.
    pub fn cache_for(self, cache: Arc<dyn Cache>, lifetime: Duration) -> Self {
        Self::new(CachedModel { inner: self, cache, lifetime: Some(lifetime) })
    }
}

#[derive(Debug)]
struct CachedModel {
    inner: Llm,
    cache: Arc<dyn Cache>,
    lifetime: Option<Duration>,
}

#[async_trait]
impl Model for CachedModel {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let start = Instant::now();
        let key = cache_key(&self.id(), request);
        if let Some(cached) = self.cache.get(&key).await.and_then(decode) {
            let latency = start.elapsed();
            let (usage, cost) = (Some(Usage::default()), Some(Money::ZERO));
            let response = Response { usage, cost, latency, ..cached };
            listener.send_response(&response);
            return Ok(response);
        }
        let response = self.inner.call(request, listener).await?;
        if matches!(response.finish, Finish::Stop | Finish::ToolCalls) {
            self.cache.put(key, encode(&response), self.lifetime).await;
        }
        Ok(response)
    }
}

fn cache_key(model: &ModelId, request: &Request) -> CacheKey {
    let input = TaskId::from_parts(&[Key::of(model, request).bytes()]);
    CacheKey { node: format!("llm:{model}"), input }
}

fn encode(response: &Response) -> CachedResult {
    let value = serde_json::to_value(response).expect("a response has only string keys");
    let write = FieldWrite { field: FIELD.to_owned(), value, overwrite: false };
    CachedResult { writes: vec![write], gotos: Vec::new() }
}

/// Decodes a stored response. Returns `None` if another version of this crate stored it in a different format.
fn decode(cached: CachedResult) -> Option<Response> {
    let write = cached.writes.into_iter().find(|it| it.field == FIELD)?;
    serde_json::from_value(write.value).ok()
}

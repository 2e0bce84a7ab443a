//! The cache: the answer to a request that was answered before.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use graph_core::{
    FieldWrite,
    cache::{Cache, CacheKey, Cached},
    checkpoint::TaskId,
};
use tokio::time::Instant;

use super::key::Key;
use crate::{Error, Finish, Listener, Llm, Model, ModelId, Money, Request, Response, Usage};

/// The field under which an answer is kept.
const FIELD: &str = "response";

impl Llm {
    /// Answers a request that was answered before with the same answer, for as long as the cache keeps it.
    ///
    /// Takes any cache for the results of nodes: in memory, in a SQLite file, on PostgreSQL. A model's answers
    /// are kept as those of a node `llm:provider/model`, which is the name to clear them by. Only whole answers
    /// are kept, none that was cut at its longest.
    ///
    /// An answer from the cache says so by its figures: it has read and written no tokens, and cost nothing.
    pub fn cache(self, cache: Arc<dyn Cache>) -> Self {
        Self::new(CachedModel { inner: self, cache, lifetime: None })
    }

    /// As [`cache`](Self::cache), but keeps answers for so long at most.
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
        let asked = Instant::now();
        let key = cache_key(&self.id(), request);
        if let Some(kept) = self.cache.get(&key).await.and_then(read) {
            let latency = asked.elapsed();
            let (usage, cost) = (Some(Usage::default()), Some(Money::ZERO));
            let response = Response { usage, cost, latency, ..kept };
            listener.tell_all(&response);
            return Ok(response);
        }
        let response = self.inner.call(request, listener).await?;
        if matches!(response.finish, Finish::Stop | Finish::ToolCalls) {
            self.cache.put(key, write(&response), self.lifetime).await;
        }
        Ok(response)
    }
}

fn cache_key(model: &ModelId, request: &Request) -> CacheKey {
    let input = TaskId::of(&[Key::of(model, request).bytes()]);
    CacheKey { node: format!("llm:{model}"), input }
}

fn write(response: &Response) -> Cached {
    let value = serde_json::to_value(response).expect("a response has no keys but strings");
    let write = FieldWrite { field: FIELD.to_owned(), value, overwrite: false };
    Cached { writes: vec![write], gotos: Vec::new() }
}

/// Reads an answer back; one in a form of another version counts as not there.
fn read(cached: Cached) -> Option<Response> {
    let write = cached.writes.into_iter().find(|it| it.field == FIELD)?;
    serde_json::from_value(write.value).ok()
}

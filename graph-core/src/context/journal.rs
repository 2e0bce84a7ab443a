//! Journaled calls: external calls whose results are stored, so that a node that runs again does not repeat them.

use std::{any::type_name_of_val, future::Future, time::SystemTime};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    cache::{CacheKey, CachedResult},
    checkpoint::id::TaskId,
    context::{Context, call_key::CallKey},
    error::{NodeError, NodeTimeoutError},
    policy::TaskOptions,
    random,
    state::field::FieldWrite,
};

impl<C: ?Sized> Context<C> {
    /// Makes an external call and journals its result. If the node runs again after a crash, a retry or an interrupt,
    /// returns the journaled result without polling `call`.
    ///
    /// Together, `name` and `key` identify the call. Calls with equal name and key are matched by the order in which
    /// they are created, so calls that are always created in the same order can have `()` as key, even if they run
    /// concurrently. A call that fails or is dropped does not count: the next equal call takes its place.
    ///
    /// The result is stored before it is returned; errors are not stored. With
    /// [`Durability::Exit`](crate::Durability::Exit), a crash loses the run together with its journal.
    ///
    /// ```
    /// # use graph_core::{Context, NodeError};
    /// async fn charge(order: u64, cx: &Context) -> Result<(), NodeError> {
    ///     let receipt: String =
    ///         cx.task("charge", order, async { Ok(format!("paid {order}")) }).await?;
    /// #   let _ = receipt;
    ///     Ok(())
    /// }
    /// ```
    pub fn task<T, F>(
        &self,
        name: &str,
        key: impl Serialize,
        call: F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, NodeError>>,
    {
        let key = CallKey::new(&self.task, name, &key);
        async move { self.journaled(key?, call).await }
    }

    /// Makes an external call like [`task`](Self::task), with retries, a timeout and a cache.
    ///
    /// Calls share a cached result if they have the same name, the same key and the same function, as in LangGraph. So
    /// all graphs that use a cache and call `page` below share the result for a URL, but a call named `fetch` in
    /// another function does not use it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use graph_core::{CachePolicy, Context, NodeError, TaskOptions};
    /// # async fn fetch(_: &str) -> Result<String, NodeError> { Ok(String::new()) }
    /// async fn page(url: &str, cx: &Context) -> Result<String, NodeError> {
    ///     let options = TaskOptions::new()
    ///         .retry(3)
    ///         .timeout(Duration::from_secs(10))
    ///         .cache(CachePolicy::ttl(Duration::from_secs(3600)));
    ///     cx.task_with(options, "fetch", url, || fetch(url)).await
    /// }
    /// ```
    pub fn task_with<T, Fut>(
        &self,
        options: TaskOptions,
        name: &str,
        key: impl Serialize,
        call: impl Fn() -> Fut,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        Fut: Future<Output = Result<T, NodeError>>,
    {
        let cache_key = cache_key(type_name_of_val(&call), name, &key);
        let key = CallKey::new(&self.task, name, &key);
        async move {
            let cache = self.task.scope.cache.as_ref().zip(options.cache);
            let run = async {
                if let Some((cache, _)) = &cache {
                    if let Some(known) = cache.get(&cache_key).await {
                        let value = known.writes.into_iter().next().map(|it| it.value);
                        // A cached result of another type counts as a cache miss.
                        if let Some(Ok(known)) = value.map(serde_json::from_value) {
                            return Ok(known);
                        }
                    }
                }
                let result = with_attempts(&options, &call).await?;
                if let Some((cache, policy)) = &cache {
                    let value = serde_json::to_value(&result).map_err(NodeError::terminal)?;
                    let write = FieldWrite { field: "result".to_owned(), value, overwrite: false };
                    let cached = CachedResult { writes: vec![write], gotos: Vec::new() };
                    cache.put(cache_key.clone(), cached, policy.ttl).await;
                }
                Ok(result)
            };
            self.journaled(key?, run).await
        }
    }

    async fn journaled<T, F>(&self, call_key: CallKey<'_>, call: F) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, NodeError>>,
    {
        self.task.heartbeat();
        let key = call_key.to_string();
        let bad = |problem: String| NodeError::terminal(JournalError { key: key.clone(), problem });
        if let Some(known) = self.task.journaled(&key) {
            call_key.keep();
            self.task.emit_effect(&key, &known, true).await;
            return serde_json::from_value(known).map_err(|error| bad(error.to_string()));
        }
        if let Some(known) = self.task.intercept_call(&key).await? {
            self.task.journal(key.clone(), known.clone()).await?;
            call_key.keep();
            self.task.emit_effect(&key, &known, true).await;
            return serde_json::from_value(known).map_err(|error| bad(error.to_string()));
        }
        let result = match call.await {
            Ok(result) => result,
            Err(error) => {
                self.task.report_call(&key, Err(&error)).await;
                return Err(error);
            }
        };
        let value = serde_json::to_value(&result).map_err(|error| bad(error.to_string()))?;
        self.task.report_call(&key, Ok(&value)).await;
        self.task.journal(key.clone(), value.clone()).await?;
        call_key.keep();
        self.task.emit_effect(&key, &value, false).await;
        Ok(result)
    }

    /// Returns the current time. The time is journaled like the result of a [`task`](Self::task), so a node that runs
    /// again gets the same time.
    pub async fn now(&self) -> Result<SystemTime, NodeError> {
        self.task("now", self.task.next_draw(), async { Ok(SystemTime::now()) }).await
    }

    /// Returns a random number in `0.0..1.0`. The number is journaled like the result of a [`task`](Self::task). It is
    /// not suitable for secrets.
    pub async fn random(&self) -> Result<f64, NodeError> {
        self.task("random", self.task.next_draw(), async { Ok(random::fraction()) }).await
    }
}

/// Returns the cache key of a call. Equal calls share a cached result, so the key does not contain the call's number.
fn cache_key(function: &str, name: &str, key: &impl Serialize) -> CacheKey {
    let key = serde_json::to_string(key).unwrap_or_default();
    let parts = [b"task", function.as_bytes(), name.as_bytes(), key.as_bytes()];
    CacheKey { node: name.to_owned(), input: TaskId::from_parts(&parts) }
}

/// Repeats a call until it succeeds or its retry policy allows no further attempt.
async fn with_attempts<T, Fut>(
    options: &TaskOptions,
    call: &impl Fn() -> Fut,
) -> Result<T, NodeError>
where
    Fut: Future<Output = Result<T, NodeError>>,
{
    let mut failed = 0;
    loop {
        let result = match options.timeout {
            None => call().await,
            Some(limit) => match tokio::time::timeout(limit, call()).await {
                Ok(result) => result,
                Err(_) => Err(NodeTimeoutError { limit, idle: false }.into()),
            },
        };
        let error = match result {
            Err(error) if error.source().is_some() => error,
            result => return result,
        };
        failed += 1;
        match options.retry.as_ref().filter(|it| it.applies(&error)) {
            Some(retry) if failed < retry.max_attempts => {
                tokio::time::sleep(retry.delay(failed)).await;
            }
            _ => return Err(error),
        }
    }
}

/// The error returned when the result of an external call cannot be journaled, or when a journaled result does not have
/// the type that the node expects.
#[derive(Clone, thiserror::Error)]
#[error("the result of the journaled call `{key}` cannot be used: {problem}")]
pub struct JournalError {
    /// Name and key of the call.
    pub key: String,
    /// Description of the problem.
    pub problem: String,
}

crate::readable_debug!(JournalError);

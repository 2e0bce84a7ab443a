//! Helpers for the checks: a controllable clock and embedder, and shorthands for common operations.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use graph_core::store::{
    Embed, Get, IndexConfig, Item, ListNamespaces, Namespace, Search, Store, StoreError, TtlConfig,
    backend::Settings,
};
use serde_json::Value;

pub(super) type CheckResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The store under test, with the clock and the embedder it was created with.
#[derive(Clone)]
pub(super) struct Fixture {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) embedder: Arc<WordEmbedder>,
}

impl Fixture {
    /// Writes a value under key `k` in namespace `a`.
    pub(super) async fn put_k(&self, value: Value) -> Result<(), StoreError> {
        self.store.put(&["a"], "k", value).await
    }

    /// Returns the item with key `k` in namespace `a`. Fails if the item does not exist.
    pub(super) async fn get_k(&self) -> CheckResult<Item> {
        Ok(self.store.get(&["a"], "k").await?.ok_or("item `a/k` does not exist")?)
    }

    /// Returns whether a key exists in namespace `a`, without restarting the lifetime of its item.
    pub(super) async fn has(&self, key: &str) -> Result<bool, StoreError> {
        let get = Get::new(&["a"], key)?.refresh_ttl(false);
        Ok(self.store.get_item(get).await?.is_some())
    }

    /// Returns the keys that a search finds, in order, separated by spaces.
    pub(super) async fn found_keys(&self, search: Search) -> Result<String, StoreError> {
        Ok(keys(&self.store.search(search).await?).join(" "))
    }

    /// Returns the namespaces of a listing, in order, separated by spaces.
    pub(super) async fn listed_namespaces(
        &self,
        list: ListNamespaces,
    ) -> Result<String, StoreError> {
        let namespaces = self.store.list_namespaces(list).await?;
        Ok(namespaces.iter().map(Namespace::to_string).collect::<Vec<_>>().join(" "))
    }
}

pub(super) fn keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|it| it.key.as_str()).collect()
}

/// Returns the settings unchanged, without an index or a default lifetime.
pub(super) fn plain(settings: Settings, _: Arc<WordEmbedder>) -> Settings {
    settings
}

/// Adds an index on the field `text` to the settings.
pub(super) fn indexed(settings: Settings, embedder: Arc<WordEmbedder>) -> Settings {
    indexed_by(settings, embedder, &["text"])
}

/// Adds an index on these fields to the settings. The vectors have three dimensions.
pub(super) fn indexed_by(
    settings: Settings,
    embedder: Arc<WordEmbedder>,
    fields: &[&str],
) -> Settings {
    let index = IndexConfig::new(embedder, 3).fields(fields);
    settings.with_index(index.expect("the checks use valid paths"))
}

/// Configures the settings so that expired items remain visible until a sweep removes them.
pub(super) fn visible_until_swept(settings: Settings, _: Arc<WordEmbedder>) -> Settings {
    settings.with_ttl(TtlConfig { omit_expired: false, ..TtlConfig::default() })
}

/// An embedder whose vectors count the words "tea", "cake" and "rust" in a text, unless a fixed result is set.
#[derive(Default)]
pub(super) struct WordEmbedder {
    calls: AtomicUsize,
    fixed: Mutex<Option<FixedResult>>,
}

/// A result that the embedder returns regardless of the texts.
pub(super) type FixedResult = Result<Vec<Vec<f32>>, &'static str>;

impl WordEmbedder {
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn set_result(&self, result: FixedResult) {
        *lock(&self.fixed) = Some(result);
    }
}

#[async_trait]
impl Embed for WordEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(result) = &*lock(&self.fixed) {
            return result.clone().map_err(StoreError::embed);
        }
        let count = |text: &String, word| text.matches(word).count() as f32;
        let vector = |text| ["tea", "cake", "rust"].map(|word| count(text, word)).to_vec();
        Ok(texts.iter().map(vector).collect())
    }
}

/// A clock that only advances when a check advances it.
#[derive(Clone)]
pub(super) struct Clock(Arc<Mutex<SystemTime>>);

impl Clock {
    pub(super) fn new() -> Self {
        // The start is not a whole second, so that the checks detect a store that rounds times.
        let start = Duration::new(1_000_000_000, 123_456_700);
        Self(Arc::new(Mutex::new(SystemTime::UNIX_EPOCH + start)))
    }

    pub(super) fn now(&self) -> SystemTime {
        *lock(&self.0)
    }

    pub(super) fn advance(&self, secs: u64) {
        *lock(&self.0) += Duration::from_secs(secs);
    }

    pub(super) fn set_back(&self, secs: u64) {
        *lock(&self.0) -= Duration::from_secs(secs);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

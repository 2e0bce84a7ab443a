//! What the checks have in common: a clock and an embedder that they control, and short ways to ask.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use serde_json::Value;

use crate::store::{
    Embed, Get, IndexConfig, Item, ListNamespaces, Namespace, Search, Store, StoreError, TtlConfig,
    backend::Settings,
};

/// Names the checks of a file: each is an async function of the bench and of the arguments given here, on a
/// store with the settings before the name of the function.
macro_rules! checks {
    ($($name:literal => $settings:expr, $check:ident($($arg:expr),*),)+) => {
        pub(super) const CHECKS: &[$crate::store::testkit::Check] = &[
            $($crate::store::testkit::Check {
                name: $name,
                settings: $settings,
                body: |bench| Box::pin($check(bench, $($arg),*)),
            }),+
        ];
    };
}

pub(super) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a check works on. It gives a store where one is wanted.
#[derive(Clone)]
pub(super) struct Bench {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) words: Arc<Words>,
}

impl Bench {
    /// Puts a value at key `k` of namespace `a`.
    pub(super) async fn put_k(&self, value: Value) -> Result<(), StoreError> {
        self.store.put(&["a"], "k", value).await
    }

    /// Reads what lies at key `k` of namespace `a` and must be there.
    pub(super) async fn k(&self) -> Outcome<Item> {
        Ok(self.store.get(&["a"], "k").await?.ok_or("there is nothing at `a/k`")?)
    }

    /// Whether a key of namespace `a` is there; this look prolongs no life.
    pub(super) async fn has(&self, key: &str) -> Result<bool, StoreError> {
        let get = Get::new(&["a"], key)?.refresh_ttl(false);
        Ok(self.store.get_item(get).await?.is_some())
    }

    /// The keys that a search finds, in order, with blanks in between.
    pub(super) async fn found(&self, search: Search) -> Result<String, StoreError> {
        Ok(keys(&self.store.search(search).await?).join(" "))
    }

    /// The namespaces of a listing, in order, with blanks in between.
    pub(super) async fn listed(&self, list: ListNamespaces) -> Result<String, StoreError> {
        let namespaces = self.store.list_namespaces(list).await?;
        Ok(namespaces.iter().map(Namespace::to_string).collect::<Vec<_>>().join(" "))
    }
}

pub(super) fn keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|it| it.key.as_str()).collect()
}

/// Neither index nor default lifetime.
pub(super) fn plain(settings: Settings, _: Arc<Words>) -> Settings {
    settings
}

/// With an index of the field `text`.
pub(super) fn indexed(settings: Settings, words: Arc<Words>) -> Settings {
    indexed_by(settings, words, &["text"])
}

/// With an index of these fields, by vectors of three numbers.
pub(super) fn indexed_by(settings: Settings, words: Arc<Words>, fields: &[&str]) -> Settings {
    let index = IndexConfig::new(words, 3).fields(fields);
    settings.with_index(index.expect("the checks write valid paths"))
}

/// Expired items stay until a sweep.
pub(super) fn shown_until_swept(settings: Settings, _: Arc<Words>) -> Settings {
    settings.with_ttl(TtlConfig { omit_expired: false, ..TtlConfig::default() })
}

/// Counts how often a text says tea, cake and rust; other words do not count. Unless it is told what to give.
#[derive(Default)]
pub(super) struct Words {
    calls: AtomicUsize,
    told: Mutex<Option<Told>>,
}

/// What the embedder gives, whatever the texts.
pub(super) type Told = Result<Vec<Vec<f32>>, &'static str>;

impl Words {
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn tell(&self, told: Told) {
        *lock(&self.told) = Some(told);
    }
}

#[async_trait]
impl Embed for Words {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(told) = &*lock(&self.told) {
            return told.clone().map_err(StoreError::embed);
        }
        let count = |text: &String, word| text.matches(word).count() as f32;
        let vector = |text| ["tea", "cake", "rust"].map(|word| count(text, word)).to_vec();
        Ok(texts.iter().map(vector).collect())
    }
}

/// A clock that moves only when a check moves it.
#[derive(Clone)]
pub(super) struct Clock(Arc<Mutex<SystemTime>>);

impl Clock {
    pub(super) fn new() -> Self {
        // No round number: a store must keep times as they are.
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

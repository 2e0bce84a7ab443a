//! Read requests, which get an item, search for items or list namespaces.

use std::{collections::BTreeSet, ops::Range};

use crate::store::{
    error::StoreError,
    filter::Filter,
    namespace::{Address, Namespace},
    validate::{validate_from_root, validate_labels},
};

/// A request to read one item.
///
/// ```
/// use std::time::Duration;
///
/// use graph_core::store::{Get, InMemoryStore, Put, Store};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = InMemoryStore::new();
/// let hour = Duration::from_secs(3600);
/// store.put_item(Put::new(&["codes"], "ada", json!({"code": 42}))?.ttl(hour)).await?;
///
/// // Reading the code must not extend its lifetime.
/// let get = Get::new(&["codes"], "ada")?.refresh_ttl(false);
/// let item = store.get_item(get).await?.ok_or("the code was put")?;
/// assert_eq!(item.value["code"], 42);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Get {
    /// Address of the item.
    pub at: Address,
    /// Whether this read restarts the item's lifetime. `None` uses the store's default.
    pub refresh_ttl: Option<bool>,
}

impl Get {
    /// Creates a request for the item with this key.
    pub fn new(namespace: &[impl AsRef<str>], key: &str) -> Result<Self, StoreError> {
        Ok(Self { at: Address::new(namespace, key)?, refresh_ttl: None })
    }

    /// Sets whether this read restarts the item's lifetime.
    pub fn refresh_ttl(mut self, refresh: bool) -> Self {
        self.refresh_ttl = Some(refresh);
        self
    }
}

/// A request for the items under a namespace prefix. By default, the search returns at most 10 items; see
/// [`limit`](Self::limit).
///
/// ```
/// use graph_core::store::{Filter, Search};
/// use serde_json::json;
///
/// let search = Search::under(&["users"])?
///     .filter(Filter::parse(&json!({"age": {"$gte": 18}, "name": "Ada"}))?)
///     .query("who drinks tea?")
///     .limit(3);
/// assert_eq!(search.page()?, 0..3);
/// # Ok::<(), graph_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "a search does nothing until it is passed to a store"]
pub struct Search {
    /// The first labels of the namespaces to search. If empty, all namespaces are searched.
    pub prefix: Vec<String>,
    /// Condition that values must match.
    pub filter: Filter,
    /// Text to rank items by. Never an empty string.
    pub query: Option<String>,
    /// Whether the search restarts the lifetime of the items it returns. `None` uses the store's default.
    pub refresh_ttl: Option<bool>,
    limit: usize,
    offset: usize,
}

impl Search {
    /// Creates a search of all namespaces.
    pub fn everything() -> Self {
        Self {
            prefix: Vec::new(),
            filter: Filter::default(),
            query: None,
            refresh_ttl: None,
            limit: 10,
            offset: 0,
        }
    }

    /// Creates a search of the namespaces that start with these labels.
    pub fn under(prefix: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        Ok(Self { prefix: validate_from_root(prefix)?, ..Self::everything() })
    }

    /// Restricts the search to items that match `filter`, in addition to earlier filters.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = self.filter.and(filter);
        self
    }

    /// Ranks items by similarity to `text`. An empty string removes the query.
    pub fn query(mut self, text: impl Into<String>) -> Self {
        self.query = Some(text.into()).filter(|it| !it.is_empty());
        self
    }

    /// Sets the maximum number of items to return. The search fails if `limit` is 0.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of hits to skip.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Sets whether the search restarts the lifetime of the items it returns.
    pub fn refresh_ttl(mut self, refresh: bool) -> Self {
        self.refresh_ttl = Some(refresh);
        self
    }

    /// Returns the positions of the requested hits, from `offset` to `offset + limit`. Fails if the limit is 0.
    pub fn page(&self) -> Result<Range<usize>, StoreError> {
        page(self.offset, self.limit)
    }
}

/// A request to list the namespaces that contain items. By default, the listing contains at most 100 namespaces; see
/// [`limit`](Self::limit).
///
/// ```
/// use graph_core::store::{ListNamespaces, Namespace};
///
/// let notes = ListNamespaces::new().prefix(&["users", "*"])?.suffix(&["notes"])?;
/// assert!(notes.matches(&Namespace::new(&["users", "ada", "notes"])?));
/// assert!(!notes.matches(&Namespace::new(&["users", "ada"])?));
/// # Ok::<(), graph_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a listing does nothing until it is passed to a store"]
pub struct ListNamespaces {
    /// Labels that a namespace must start with. `*` matches any single label.
    pub prefix: Vec<String>,
    /// Labels that a namespace must end with. `*` matches any single label.
    pub suffix: Vec<String>,
    max_depth: usize,
    limit: usize,
    offset: usize,
}

impl ListNamespaces {
    /// Creates a request that lists all namespaces.
    pub fn new() -> Self {
        Self { prefix: vec![], suffix: vec![], max_depth: usize::MAX, limit: 100, offset: 0 }
    }

    /// Restricts the listing to namespaces that start with these labels. `*` matches any single label.
    pub fn prefix(mut self, labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        self.prefix = validate_from_root(labels)?;
        Ok(self)
    }

    /// Restricts the listing to namespaces that end with these labels. `*` matches any single label.
    pub fn suffix(mut self, labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        self.suffix = validate_labels(labels)?;
        Ok(self)
    }

    /// Truncates namespaces to `depth` labels and removes duplicates. The listing fails if `depth` is 0.
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Sets the maximum number of namespaces to return. The listing fails if `limit` is 0.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of namespaces to skip.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Returns whether a namespace, before truncation, matches the prefix and the suffix.
    pub fn matches(&self, namespace: &Namespace) -> bool {
        let fits = |(pattern, label): (&String, &String)| pattern == "*" || pattern == label;
        namespace.len() >= self.prefix.len().max(self.suffix.len())
            && self.prefix.iter().zip(namespace.iter()).all(fits)
            && self.suffix.iter().rev().zip(namespace.iter().rev()).all(fits)
    }

    /// Returns the labels before the first `*` in the prefix. Every matching namespace starts with them.
    pub fn fixed_prefix(&self) -> &[String] {
        self.prefix.split(|it| it == "*").next().unwrap_or_default()
    }

    /// Filters and truncates the namespaces, removes duplicates, sorts them and returns the requested page.
    pub fn select_page<'a>(
        &self,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Result<Vec<Namespace>, StoreError> {
        let (page, depth) = (self.page()?, self.depth()?);
        let matching = namespaces.into_iter().filter(|it| self.matches(it));
        let truncated: BTreeSet<Namespace> = matching.map(|it| it.truncated(depth)).collect();
        Ok(truncated.into_iter().skip(page.start).take(page.len()).collect())
    }

    /// Returns the number of labels to which namespaces are truncated. Fails if the number is 0.
    pub fn depth(&self) -> Result<usize, StoreError> {
        at_least_one("max_depth", self.max_depth)
    }

    /// Returns the positions of the requested namespaces, from `offset` to `offset + limit`. Fails if the limit is 0.
    pub fn page(&self) -> Result<Range<usize>, StoreError> {
        page(self.offset, self.limit)
    }
}

impl Default for ListNamespaces {
    fn default() -> Self {
        Self::new()
    }
}

fn page(offset: usize, limit: usize) -> Result<Range<usize>, StoreError> {
    Ok(offset..offset.saturating_add(at_least_one("limit", limit)?))
}

fn at_least_one(option: &'static str, count: usize) -> Result<usize, StoreError> {
    if count == 0 { Err(StoreError::ZeroOption { option }) } else { Ok(count) }
}

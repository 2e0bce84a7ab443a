//! Requests that read: one item, many items, the namespaces.

use std::{collections::BTreeSet, ops::Range};

use super::{
    Address, Filter, Namespace, StoreError,
    namespace::{checked, rooted},
};

/// Asks a store for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Get {
    /// Where it lies.
    pub at: Address,
    /// Whether this read prolongs its life; `None` leaves it to the store.
    pub refresh_ttl: Option<bool>,
}

impl Get {
    /// Asks for the item at `key`.
    pub fn new(namespace: &[impl AsRef<str>], key: &str) -> Result<Self, StoreError> {
        Ok(Self { at: Address::new(namespace, key)?, refresh_ttl: None })
    }

    /// Decides whether this read prolongs the item's life.
    pub fn refresh_ttl(mut self, refresh: bool) -> Self {
        self.refresh_ttl = Some(refresh);
        self
    }
}

/// Asks a store for the items under a namespace prefix, ten unless told otherwise.
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
#[must_use = "a search does nothing until a store gets it"]
pub struct Search {
    /// The first labels of every namespace to look in; empty for all.
    pub prefix: Vec<String>,
    /// What a value must fulfil.
    pub filter: Filter,
    /// The text to rank by; never empty.
    pub query: Option<String>,
    /// Whether being found prolongs an item's life; `None` leaves it to the store.
    pub refresh_ttl: Option<bool>,
    limit: usize,
    offset: usize,
}

impl Search {
    /// Looks everywhere.
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

    /// Looks in the namespaces that start with these labels.
    pub fn under(prefix: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        Ok(Self { prefix: rooted(prefix)?, ..Self::everything() })
    }

    /// Keeps only the items that pass `filter`, and those given before.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = self.filter.and(filter);
        self
    }

    /// Ranks items by their similarity to `text`; an empty text ranks nothing.
    pub fn query(mut self, text: impl Into<String>) -> Self {
        self.query = Some(text.into()).filter(|it| !it.is_empty());
        self
    }

    /// Gives at most so many items; 0 is an error of the search.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Leaves out the first so many hits.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Decides whether being found prolongs an item's life.
    pub fn refresh_ttl(mut self, refresh: bool) -> Self {
        self.refresh_ttl = Some(refresh);
        self
    }

    /// Gives the positions of the hits wanted, from offset to offset + limit.
    pub fn page(&self) -> Result<Range<usize>, StoreError> {
        page(self.offset, self.limit)
    }
}

/// Asks a store which namespaces hold items, a hundred unless told otherwise.
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
#[must_use = "a listing does nothing until a store gets it"]
pub struct ListNamespaces {
    /// How a namespace must start; `*` stands for any one label.
    pub prefix: Vec<String>,
    /// How a namespace must end; `*` stands for any one label.
    pub suffix: Vec<String>,
    max_depth: usize,
    limit: usize,
    offset: usize,
}

impl ListNamespaces {
    /// Lists all.
    pub fn new() -> Self {
        Self { prefix: vec![], suffix: vec![], max_depth: usize::MAX, limit: 100, offset: 0 }
    }

    /// Keeps the namespaces that start with these labels; `*` stands for any one label.
    pub fn prefix(mut self, labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        self.prefix = rooted(labels)?;
        Ok(self)
    }

    /// Keeps the namespaces that end with these labels; `*` stands for any one label.
    pub fn suffix(mut self, labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        self.suffix = checked(labels)?;
        Ok(self)
    }

    /// Cuts namespaces after so many labels and lists each once; 0 is an error of the listing.
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Gives at most so many namespaces; 0 is an error of the listing.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Leaves out the first so many namespaces.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Tells whether a whole namespace fits the prefix and the suffix.
    pub fn matches(&self, namespace: &Namespace) -> bool {
        let fits = |(pattern, label): (&String, &String)| pattern == "*" || pattern == label;
        namespace.len() >= self.prefix.len().max(self.suffix.len())
            && self.prefix.iter().zip(namespace.iter()).all(fits)
            && self.suffix.iter().rev().zip(namespace.iter().rev()).all(fits)
    }

    /// Gives the labels with which every namespace wanted starts: those before the first `*`.
    pub fn fixed_prefix(&self) -> &[String] {
        self.prefix.split(|it| it == "*").next().unwrap_or_default()
    }

    /// Chooses among all namespaces, given in order, the page that is wanted; each is cut and listed once.
    pub fn choose<'a>(
        &self,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Result<Vec<Namespace>, StoreError> {
        let (page, depth) = (self.page()?, self.depth()?);
        let wanted = namespaces.into_iter().filter(|it| self.matches(it));
        let found: BTreeSet<Namespace> = wanted.map(|it| it.up_to(depth)).collect();
        Ok(found.into_iter().skip(page.start).take(page.len()).collect())
    }

    /// Gives the number of labels after which namespaces are cut.
    pub fn depth(&self) -> Result<usize, StoreError> {
        at_least_one("max_depth", self.max_depth)
    }

    /// Gives the positions of the namespaces wanted, from offset to offset + limit.
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
    if count == 0 { Err(StoreError::Zero { option }) } else { Ok(count) }
}

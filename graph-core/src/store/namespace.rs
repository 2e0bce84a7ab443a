//! Namespaces and addresses of items.

use std::{borrow::Borrow, fmt, ops::Deref};

use super::StoreError;

/// A hierarchical namespace for items: a path of labels, such as `users.ada`.
///
/// Labels must not be empty or contain `.` or NUL. The first label must not be `graph` or `langgraph`.
///
/// ```
/// use graph_core::store::Namespace;
///
/// let namespace = Namespace::new(&["users", "ada"])?;
/// assert_eq!(namespace.to_string(), "users.ada");
/// assert!(Namespace::new(&["users", "a.d.a"]).is_err());
/// # Ok::<(), graph_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Vec<String>);

impl Namespace {
    /// Creates a namespace. Fails if there are no labels or a label is invalid.
    pub fn new(labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        if labels.is_empty() {
            return Err(StoreError::EmptyNamespace);
        }
        validate_from_root(labels).map(Self)
    }

    /// Returns the labels in the form that [`Store::get`](super::Store::get) accepts.
    pub fn labels(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Returns the namespace that consists of the first `depth` labels. Keeps at least one label.
    pub fn truncated(&self, depth: usize) -> Self {
        Self(self.0[..depth.clamp(1, self.0.len())].to_vec())
    }
}

impl Deref for Namespace {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

// Allows range queries by prefix on a map whose keys are namespaces. Unlike a namespace, the prefix may be empty.
impl Borrow<[String]> for Namespace {
    fn borrow(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// The address of an item: a namespace and a non-empty key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub(super) namespace: Namespace,
    pub(super) key: String,
}

impl Address {
    /// Creates an address. Fails if a label or the key is invalid.
    pub fn new(namespace: &[impl AsRef<str>], key: &str) -> Result<Self, StoreError> {
        let namespace = Namespace::new(namespace)?;
        if key.is_empty() {
            return Err(StoreError::EmptyKey { namespace });
        }
        Ok(Self { namespace, key: key.to_owned() })
    }

    /// Returns the namespace that contains the item.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the key of the item within its namespace.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.key)
    }
}

/// Validates a path of labels that starts at the root, where some labels are reserved. An empty path means the root.
pub(super) fn validate_from_root(labels: &[impl AsRef<str>]) -> Result<Vec<String>, StoreError> {
    let labels = validate_labels(labels)?;
    match labels.first().map(String::as_str) {
        Some("graph" | "langgraph") => Err(StoreError::ReservedRoot { labels }),
        _ => Ok(labels),
    }
}

/// Validates each label, regardless of its position.
pub(super) fn validate_labels(labels: &[impl AsRef<str>]) -> Result<Vec<String>, StoreError> {
    let labels: Vec<String> = labels.iter().map(|it| it.as_ref().to_owned()).collect();
    if let Some(position) = labels.iter().position(String::is_empty) {
        return Err(StoreError::EmptyLabel { labels, position });
    }
    let invalid = labels.iter().find_map(|it| Some((it.clone(), it.chars().find(is_forbidden)?)));
    match invalid {
        Some((label, character)) => Err(StoreError::InvalidLabel { labels, label, character }),
        None => Ok(labels),
    }
}

fn is_forbidden(character: &char) -> bool {
    // Back ends join labels with `.`, and PostgreSQL does not support NUL in text.
    matches!(character, '.' | '\0')
}

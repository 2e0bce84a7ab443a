//! Namespaces and addresses of items.

use std::{borrow::Borrow, fmt, ops::Deref};

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
pub struct Namespace(pub(super) Vec<String>);

impl Namespace {
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

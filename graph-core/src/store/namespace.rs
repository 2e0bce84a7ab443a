//! Namespaces and addresses: where an item lies.

use std::{borrow::Borrow, fmt, ops::Deref};

use super::StoreError;

/// Names a place for items: a path of labels, such as `users.ada`.
///
/// A label has at least one character, no `.` and no NUL; the first one is neither
/// `graph` nor `langgraph`.
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
    /// Checks the labels and joins them.
    pub fn new(labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        if labels.is_empty() {
            return Err(StoreError::EmptyNamespace);
        }
        rooted(labels).map(Self)
    }

    /// Lists the labels, in the form that [`Store::get`](super::Store::get) takes.
    pub fn labels(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Keeps the first `depth` labels, but never less than one.
    pub fn up_to(&self, depth: usize) -> Self {
        Self(self.0[..depth.clamp(1, self.0.len())].to_vec())
    }
}

impl Deref for Namespace {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

// Lets a map of namespaces be searched by a prefix, which may be empty.
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

/// Names one item: a namespace and a key that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub(super) namespace: Namespace,
    pub(super) key: String,
}

impl Address {
    /// Checks the labels and the key.
    pub fn new(namespace: &[impl AsRef<str>], key: &str) -> Result<Self, StoreError> {
        let namespace = Namespace::new(namespace)?;
        if key.is_empty() {
            return Err(StoreError::EmptyKey { namespace });
        }
        Ok(Self { namespace, key: key.to_owned() })
    }

    /// Gives the namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Gives the key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.key)
    }
}

/// Checks labels that start at the root; none at all is the root itself.
pub(super) fn rooted(labels: &[impl AsRef<str>]) -> Result<Vec<String>, StoreError> {
    let labels = checked(labels)?;
    match labels.first().map(String::as_str) {
        Some("graph" | "langgraph") => Err(StoreError::ReservedRoot { labels }),
        _ => Ok(labels),
    }
}

/// Checks each label by itself.
pub(super) fn checked(labels: &[impl AsRef<str>]) -> Result<Vec<String>, StoreError> {
    let labels: Vec<String> = labels.iter().map(|it| it.as_ref().to_owned()).collect();
    if let Some(position) = labels.iter().position(String::is_empty) {
        return Err(StoreError::EmptyLabel { labels, position });
    }
    let bad = labels.iter().find_map(|it| Some((it.clone(), it.chars().find(is_forbidden)?)));
    match bad {
        Some((label, character)) => Err(StoreError::BadLabel { labels, label, character }),
        None => Ok(labels),
    }
}

fn is_forbidden(character: &char) -> bool {
    // Back ends join labels with `.`, and PostgreSQL keeps no NUL in a text.
    matches!(character, '.' | '\0')
}

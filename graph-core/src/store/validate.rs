//! Validation of namespaces and addresses.

use crate::store::{
    error::StoreError,
    namespace::{Address, Namespace},
};

impl Namespace {
    /// Creates a namespace. Fails if there are no labels or a label is invalid.
    pub fn new(labels: &[impl AsRef<str>]) -> Result<Self, StoreError> {
        if labels.is_empty() {
            return Err(StoreError::EmptyNamespace);
        }
        validate_from_root(labels).map(Self)
    }
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

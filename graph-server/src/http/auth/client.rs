//! Clients and their permissions.

use std::str::FromStr;

/// A client that has proven its identity. Objects that the client creates belong to its owner, and are invisible to
/// the clients of other owners.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// Name of the owner: a user or a tenant.
    pub owner: String,
    /// Permissions of the client.
    pub scope: Scope,
}

impl Client {
    /// Creates a client that may read and write the objects of its owner.
    pub fn new(owner: impl Into<String>) -> Self {
        Self { owner: owner.into(), scope: Scope::Write }
    }

    /// Sets the permissions of the client.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }
}

/// Permissions of a client. Each scope includes the scopes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read the objects of the client's owner.
    Read,
    /// Create, change and delete the objects of the client's owner, and run graphs.
    Write,
    /// Read, change and delete the objects of all owners, and read metrics.
    Admin,
}

/// The error returned when a text is not the name of a scope.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope `{0}`; the scopes are read, write and admin")]
pub struct UnknownScope(String);

graph_core::readable_debug!(UnknownScope);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        match name {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "admin" => Ok(Self::Admin),
            other => Err(UnknownScope(other.to_owned())),
        }
    }
}

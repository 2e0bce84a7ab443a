//! The interface of authenticators.

use async_trait::async_trait;
use axum::http::{HeaderMap, header};

use super::client::Client;

/// Identifies clients by the headers of their requests.
///
/// ```
/// use axum::http::HeaderMap;
/// use graph_server::http::{AuthError, Authenticator, Client};
///
/// /// Trusts the name that a proxy in front of this server sets.
/// #[derive(Debug)]
/// struct BehindProxy;
///
/// #[async_trait::async_trait]
/// impl Authenticator for BehindProxy {
///     async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Client>, AuthError> {
///         let Some(user) = headers.get("x-user") else { return Ok(None) };
///         let user = user.to_str().map_err(|_| AuthError::new("`X-User` must be ASCII"))?;
///         Ok(Some(Client::new(user)))
///     }
/// }
/// ```
#[async_trait]
pub trait Authenticator: std::fmt::Debug + Send + Sync {
    /// Returns the client that sent a request with these headers. Returns `None` if the request has no credentials
    /// that this authenticator checks, and an error if it has invalid ones.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Client>, AuthError>;
}

/// Invalid credentials. The reason is sent to the client, so it must not contain secrets.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid credentials: {0}")]
pub struct AuthError(String);

graph_core::readable_debug!(AuthError);

impl AuthError {
    /// Creates an error with a reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Returns the token in the header `Authorization: Bearer`.
pub(in crate::http) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

//! Clients that are identified by API keys.

use async_trait::async_trait;
use axum::http::HeaderMap;

use super::{
    authenticator::{AuthError, Authenticator, bearer_token},
    client::Client,
};
use crate::http::key::KeyHash;

/// API keys of clients. Only the hashes of the keys are kept.
///
/// ```
/// use graph_server::http::{ApiKeys, Client, KeyHash, Scope};
///
/// let keys = ApiKeys::new()
///     .add(KeyHash::of_checked("ada's long secret key")?, Client::new("ada"))
///     .add(KeyHash::of_checked("bob's long secret key")?, Client::new("bob").with_scope(Scope::Read));
/// # Ok::<_, graph_server::http::ShortKeyError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ApiKeys(Vec<(KeyHash, Client)>);

impl ApiKeys {
    /// Creates an empty set of keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the hash of a client's key.
    #[must_use]
    pub fn add(mut self, key: KeyHash, client: Client) -> Self {
        self.0.push((key, client));
        self
    }
}

#[async_trait]
impl Authenticator for ApiKeys {
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Client>, AuthError> {
        let found = self.0.iter().find(|(key, _)| key.matches(headers));
        match found {
            Some((_, client)) => Ok(Some(client.clone())),
            // Another authenticator may know the bearer token.
            None if headers.contains_key("x-api-key") && bearer_token(headers).is_none() => {
                Err(AuthError::new("the API key is unknown"))
            }
            None => Ok(None),
        }
    }
}

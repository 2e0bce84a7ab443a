//! Sets of public keys, from a file or from the URL of an identity provider.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use tokio::sync::Mutex;

/// Minimum time between two requests for the keys. It bounds the requests that tokens with invented key ids can cause.
const MIN_REFRESH: Duration = Duration::from_secs(60);
/// Time after which the keys are requested again, so that revoked keys become invalid.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Maximum time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The error returned when a set of keys cannot be loaded.
#[derive(thiserror::Error)]
#[error("cannot load the JSON Web Key Set from {from}: {cause}")]
pub struct JwksError {
    from: String,
    cause: String,
}

graph_core::readable_debug!(JwksError);

/// A set of public keys.
#[derive(Debug)]
pub(super) struct Jwks {
    url: Option<String>,
    keys: RwLock<Arc<JwkSet>>,
    /// Time of the last request. The lock is held during a request, so that there is only one at a time.
    requested_at: Mutex<Option<Instant>>,
}

impl Jwks {
    /// Reads the keys from a file.
    pub(super) fn from_file(path: &Path) -> Result<Self, JwksError> {
        let failed = |cause: &dyn std::fmt::Display| JwksError {
            from: path.display().to_string(),
            cause: cause.to_string(),
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let keys = serde_json::from_str::<JwkSet>(&text).map_err(|error| failed(&error))?;
        Ok(Self { url: None, keys: RwLock::new(Arc::new(keys)), requested_at: Mutex::default() })
    }

    /// Creates a set whose keys are requested when they are first needed.
    pub(super) fn from_url(url: String) -> Self {
        let keys = RwLock::new(Arc::new(JwkSet { keys: Vec::new() }));
        Self { url: Some(url), keys, requested_at: Mutex::default() }
    }

    /// Returns the key with this id. Without an id, the set must have exactly one key.
    pub(super) async fn find(&self, id: Option<&str>) -> Option<Jwk> {
        self.refresh(id).await;
        find_in(&self.current(), id)
    }

    fn current(&self) -> Arc<JwkSet> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests the keys again if they are old, or if the wanted key is unknown.
    async fn refresh(&self, id: Option<&str>) {
        let Some(url) = &self.url else { return };
        let mut requested_at = self.requested_at.lock().await;
        let age = requested_at.map(|it| it.elapsed());
        let is_missing = find_in(&self.current(), id).is_none();
        let due = match age {
            None => true,
            Some(age) => age > MAX_AGE || (is_missing && age > MIN_REFRESH),
        };
        if !due {
            return;
        }
        *requested_at = Some(Instant::now());
        match request(url).await {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
            }
            // The earlier keys stay valid while the identity provider cannot be reached.
            Err(error) => {
                tracing::warn!(%error, "cannot refresh the keys that verify tokens; keeping the earlier keys");
            }
        }
    }
}

fn find_in(keys: &JwkSet, id: Option<&str>) -> Option<Jwk> {
    match id {
        Some(id) => keys.find(id).cloned(),
        None if keys.keys.len() == 1 => keys.keys.first().cloned(),
        None => None,
    }
}

async fn request(url: &str) -> Result<JwkSet, JwksError> {
    let failed = |error: reqwest::Error| JwksError {
        from: url.to_owned(),
        cause: error.without_url().to_string(),
    };
    // Fails if the application has already chosen a TLS provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(TIMEOUT).build().map_err(failed)?;
    let response = client.get(url).send().await.and_then(reqwest::Response::error_for_status);
    let text = response.map_err(failed)?.text().await.map_err(failed)?;
    serde_json::from_str(&text)
        .map_err(|error| JwksError { from: url.to_owned(), cause: error.to_string() })
}

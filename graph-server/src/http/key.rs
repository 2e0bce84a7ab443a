//! API keys of clients. The server stores only the hashes of the keys.

use std::{fmt, str::FromStr};

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::auth::bearer_token;

/// The SHA-256 hash of an API key. API keys are long and random, so a slow hash function is unnecessary.
///
/// ```
/// use graph_server::http::KeyHash;
///
/// // Configuration files contain only the hash of the key.
/// let stored = "sha256:3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9";
/// assert_eq!(stored.parse::<KeyHash>()?, KeyHash::of("0123456789abcdef0123456789abcdef"));
/// assert!(KeyHash::of_checked("short").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

/// The error returned when a text is not a valid key hash.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key hash must be `sha256:` followed by 64 hexadecimal digits, and it must not be the hash of an empty key; create one with: printf 'sha256:'; printf %s KEY | sha256sum | cut -d' ' -f1"
)]
pub struct KeyHashError;

graph_core::readable_debug!(KeyHashError);

/// The error returned when an API key is too short.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an API key must have at least {MIN_KEY_CHARS} characters; create one with: openssl rand -hex 32"
)]
pub struct ShortKeyError;

graph_core::readable_debug!(ShortKeyError);

/// Minimum length of an API key in characters.
const MIN_KEY_CHARS: usize = 16;

impl KeyHash {
    /// Returns the hash of an API key.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Returns the hash of an API key, or an error if the key is too short.
    pub fn of_checked(key: &str) -> Result<Self, ShortKeyError> {
        if key.chars().count() < MIN_KEY_CHARS { Err(ShortKeyError) } else { Ok(Self::of(key)) }
    }

    /// Returns whether the request carries the API key in the header `Authorization: Bearer` or `X-Api-Key`. The
    /// comparison takes constant time.
    pub(in crate::http) fn matches(&self, headers: &HeaderMap) -> bool {
        let own = headers.get("x-api-key").and_then(|it| it.to_str().ok());
        let is_right = |it: &str| bool::from(Self::of(it.trim()).0.ct_eq(&self.0));
        [bearer_token(headers), own].into_iter().flatten().any(is_right)
    }
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    fn from_str(text: &str) -> Result<Self, KeyHashError> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| KeyHashError)?;
        // Rejects the hash of the empty key, which results from hashing an unset shell variable.
        if Self(bytes) == Self::of("") { Err(KeyHashError) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{KeyHash, ShortKeyError};

    #[test]
    fn short_keys_are_rejected() {
        assert_eq!(KeyHash::of_checked("0123456789abcde"), Err(ShortKeyError));
        assert_eq!(KeyHash::of_checked("0123456789abcdef"), Ok(KeyHash::of("0123456789abcdef")));
    }

    #[test]
    fn the_key_is_accepted_in_either_header() {
        let hash = KeyHash::of("abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text.parse(), Ok(hash));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for wrong in [empty, "sha256:ba78", &text.replace('b', "g"), "", &"é".repeat(32)] {
            assert!(wrong.parse::<KeyHash>().is_err(), "{wrong}");
        }
        let accepts = |name: &'static str, value: &'static str| {
            hash.matches(&HeaderMap::from_iter([(
                name.parse().unwrap(),
                HeaderValue::from_static(value),
            )]))
        };
        assert!(accepts("authorization", "Bearer abc") && accepts("x-api-key", "abc"));
        assert!(!accepts("authorization", "abc") && !accepts("x-api-key", "ab"));
        assert!(!hash.matches(&HeaderMap::new()));
        assert!(!format!("{hash:?}").contains("ba78"));
    }
}

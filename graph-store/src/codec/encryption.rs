//! Encryption at rest with XChaCha20-Poly1305.
//!
//! The nonce of this cipher is long enough to be generated at random without a practical risk of collisions, so
//! several processes can write to one database without coordination.

use std::{env, fmt};

use chacha20poly1305::{
    XChaCha20Poly1305,
    aead::{Aead, Generate, KeyInit, Nonce, Payload},
};

/// The environment variable that [`Keys::from_env`] reads.
pub const KEY_VARIABLE: &str = "GRAPH_STORE_KEY";

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Length of a key's fingerprint in bytes. The fingerprint identifies the key with which a value was encrypted.
const FINGERPRINT_BYTES: usize = 4;

/// Encryption keys: one for writing, and older ones that are only used for reading.
///
/// ```
/// # use graph_store::Keys;
/// // Each key is 64 hexadecimal digits (32 bytes). Separate several keys with commas; the first one is used for writing.
/// let keys = Keys::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")?;
/// assert_eq!(format!("{keys:?}"), "Keys(1)");
/// # Ok::<(), graph_store::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Keys(Vec<Key>);

#[derive(Clone)]
struct Key {
    fingerprint: [u8; FINGERPRINT_BYTES],
    cipher: XChaCha20Poly1305,
}

impl Keys {
    /// Reads the keys from the environment variable `GRAPH_STORE_KEY`. Returns `None` if the variable is not set.
    /// For callers that treat encryption as optional.
    pub fn from_env() -> Result<Option<Self>, KeyError> {
        match env::var(KEY_VARIABLE) {
            Ok(text) => Self::parse(&text).map(Some),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(KeyError::InvalidKey { key: 1 }),
        }
    }

    /// Reads the keys from the environment variable `GRAPH_STORE_KEY` and fails if the variable is not set. For
    /// callers that require encryption.
    pub fn require_env() -> Result<Self, KeyError> {
        Self::from_env()?.ok_or(KeyError::Missing)
    }

    /// Parses keys of 64 hexadecimal digits each, separated by commas. The first one is used for writing.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let keys = text.split(',').enumerate();
        let keys = keys.map(|(index, it)| {
            Key::parse(it.trim()).ok_or(KeyError::InvalidKey { key: index + 1 })
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// Encrypts `bytes`. Returns the format byte, the key's fingerprint, the nonce and the ciphertext,
    /// concatenated.
    pub(super) fn encrypt(&self, format: u8, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let key = &self.0[0];
        let nonce = Nonce::<XChaCha20Poly1305>::generate();
        let ciphertext = key.cipher.encrypt(&nonce, Payload { msg: bytes, aad: &[format] });
        let ciphertext = ciphertext.map_err(|_| "it cannot be encrypted".to_owned())?;
        Ok([&[format], &key.fingerprint[..], nonce.as_slice(), &ciphertext].concat())
    }

    pub(super) fn decrypt(&self, format: u8, ciphertext: &[u8]) -> Result<Vec<u8>, String> {
        let (fingerprint, rest) =
            ciphertext.split_at_checked(FINGERPRINT_BYTES).ok_or("it is truncated")?;
        let (nonce, rest) = rest.split_at_checked(NONCE_BYTES).ok_or("it is truncated")?;
        let key = self.0.iter().find(|it| it.fingerprint == fingerprint);
        let key = key.ok_or("it was encrypted with another key")?;
        let nonce =
            Nonce::<XChaCha20Poly1305>::try_from(nonce).map_err(|_| "its nonce is truncated")?;
        let plaintext = key.cipher.decrypt(&nonce, Payload { msg: rest, aad: &[format] });
        plaintext.map_err(|_| "it was changed after it was encrypted".to_owned())
    }
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        let cipher = XChaCha20Poly1305::new(&bytes.into());
        // The authentication tag of an empty message identifies the key without revealing it.
        let nonce = Nonce::<XChaCha20Poly1305>::default();
        let tag = cipher.encrypt(&nonce, Payload { msg: &[], aad: b"mark" }).ok()?;
        Some(Self { fingerprint: tag.get(..FINGERPRINT_BYTES)?.try_into().ok()?, cipher })
    }
}

/// Shows the number of keys, never the keys.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// The error returned when an encryption key is missing or invalid. It never contains the text of the key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key does not consist of 64 hexadecimal digits.
    #[error(
        "encryption key {key} is not 64 hexadecimal digits; generate one with `openssl rand -hex 32` and set it in \
         {KEY_VARIABLE}"
    )]
    InvalidKey {
        /// Position of the key in the list, starting at 1.
        key: usize,
    },
    /// The environment variable `GRAPH_STORE_KEY` is not set.
    #[error(
        "{KEY_VARIABLE} is not set; generate a key with `openssl rand -hex 32` and set the variable to it"
    )]
    Missing,
}

graph_core::readable_debug!(KeyError);

#[cfg(test)]
mod tests {
    use super::Keys;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn require_env_fails_without_a_key() {
        let error = Keys::require_env().unwrap_err().to_string();
        assert!(error.contains("GRAPH_STORE_KEY is not set; generate a key"), "{error}");
    }

    #[test]
    fn an_invalid_key_is_reported_by_position_only() {
        let error = Keys::parse(&format!("{KEY},secret")).unwrap_err();
        assert!(error.to_string().contains("key 2"));
        assert!(!error.to_string().contains("secret"));
    }
}

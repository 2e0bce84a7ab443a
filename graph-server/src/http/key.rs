//! Keys that clients show. The server knows their hashes alone.

use std::{fmt, str::FromStr};

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A key's SHA-256. Keys are long and random, so no slow hash is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

/// Why a text is no key's hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key's hash is `sha256:` and 64 hexadecimal digits, of a key that is not empty; make one with: printf %s KEY | sha256sum"
)]
pub struct KeyHashError;

/// A key that others could guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key has {SHORTEST} characters at least, so that nobody guesses it; make one with: openssl rand -hex 32"
)]
pub struct ShortKey;

/// Characters that a key has at least.
const SHORTEST: usize = 16;

impl KeyHash {
    /// The hash of a key.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// The hash of a key that is long enough not to be guessed.
    pub fn of_long(key: &str) -> Result<Self, ShortKey> {
        if key.chars().count() < SHORTEST { Err(ShortKey) } else { Ok(Self::of(key)) }
    }

    /// Whether a request shows the key: as `Authorization: Bearer` or as `X-Api-Key`. It takes as long for a wrong key
    /// as for the right one.
    pub(super) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
        let bearer = bearer.and_then(|it| it.split_once(' '));
        let bearer = bearer.filter(|it| it.0.eq_ignore_ascii_case("bearer")).map(|it| it.1);
        let own = headers.get("x-api-key").and_then(|it| it.to_str().ok());
        let is_right = |it: &str| bool::from(Self::of(it.trim()).0.ct_eq(&self.0));
        [bearer, own].into_iter().flatten().any(is_right)
    }
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    fn from_str(text: &str) -> Result<Self, KeyHashError> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(KeyHashError);
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| KeyHashError)?;
        }
        // What an unset variable gives opens to everybody.
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

    use super::{KeyHash, ShortKey};

    #[test]
    fn a_key_that_can_be_guessed_is_none() {
        assert_eq!(KeyHash::of_long("0123456789abcde"), Err(ShortKey));
        assert_eq!(KeyHash::of_long("0123456789abcdef"), Ok(KeyHash::of("0123456789abcdef")));
    }

    #[test]
    fn the_right_key_in_either_header_opens() {
        let hash = KeyHash::of("abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text.parse(), Ok(hash));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for wrong in [empty, "sha256:ba78", &text.replace('b', "g"), "", &"é".repeat(32)] {
            assert!(wrong.parse::<KeyHash>().is_err(), "{wrong}");
        }
        let shown = |name: &'static str, value: &'static str| {
            hash.is_shown(&HeaderMap::from_iter([(
                name.parse().unwrap(),
                HeaderValue::from_static(value),
            )]))
        };
        assert!(shown("authorization", "Bearer abc") && shown("x-api-key", "abc"));
        assert!(!shown("authorization", "abc") && !shown("x-api-key", "ab"));
        assert!(!hash.is_shown(&HeaderMap::new()));
        assert!(!format!("{hash:?}").contains("ba78"));
    }
}

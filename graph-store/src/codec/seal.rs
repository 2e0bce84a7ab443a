//! Sealing: values encrypted at rest with XChaCha20-Poly1305.
//!
//! Its nonce is long enough to be drawn at random for ever, which a store that several processes write to needs.

use std::{env, fmt};

use chacha20poly1305::{
    XChaCha20Poly1305,
    aead::{Aead, Generate, KeyInit, Nonce, Payload},
};

/// The environment variable that [`Keys::from_env`] reads.
pub const KEY_VARIABLE: &str = "GRAPH_STORE_KEY";

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// A few bytes that tell keys apart, so that the right one is found without trying all.
const MARK_BYTES: usize = 4;

/// The keys that stored values are sealed with: one for writing, and older ones that are still read.
///
/// ```
/// # use graph_store::Keys;
/// // 32 bytes, as 64 hexadecimal digits; several keys are parted by commas, the one to write with first.
/// let keys = Keys::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")?;
/// assert_eq!(format!("{keys:?}"), "Keys(1)");
/// # Ok::<(), graph_store::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Keys(Vec<Key>);

#[derive(Clone)]
struct Key {
    mark: [u8; MARK_BYTES],
    cipher: XChaCha20Poly1305,
}

impl Keys {
    /// Reads the keys from the environment variable `GRAPH_STORE_KEY`; `None` if it is not set, for those who encrypt
    /// only where it is.
    pub fn from_env() -> Result<Option<Self>, KeyError> {
        match env::var(KEY_VARIABLE) {
            Ok(text) => Self::parse(&text).map(Some),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(KeyError::NotAKey { key: 1 }),
        }
    }

    /// Reads the keys from the environment variable `GRAPH_STORE_KEY`, which has to be set: nothing is to be stored that
    /// can be read without a key.
    pub fn require_env() -> Result<Self, KeyError> {
        Self::from_env()?.ok_or(KeyError::Missing)
    }

    /// Reads keys from a text: 64 hexadecimal digits each, parted by commas, the one to write with first.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let keys = text.split(',').enumerate();
        let keys = keys
            .map(|(index, it)| Key::parse(it.trim()).ok_or(KeyError::NotAKey { key: index + 1 }));
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// The format's byte, the key's mark, the nonce, and the sealed bytes.
    pub(super) fn seal(&self, format: u8, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let key = &self.0[0];
        let nonce = Nonce::<XChaCha20Poly1305>::generate();
        let sealed = key.cipher.encrypt(&nonce, Payload { msg: bytes, aad: &[format] });
        let sealed = sealed.map_err(|_| "it cannot be encrypted".to_owned())?;
        Ok([&[format], &key.mark[..], nonce.as_slice(), &sealed].concat())
    }

    pub(super) fn open(&self, format: u8, sealed: &[u8]) -> Result<Vec<u8>, String> {
        let (mark, rest) = sealed.split_at_checked(MARK_BYTES).ok_or("it is cut short")?;
        let (nonce, rest) = rest.split_at_checked(NONCE_BYTES).ok_or("it is cut short")?;
        let key = self.0.iter().find(|it| it.mark == mark);
        let key = key.ok_or("it was encrypted with another key")?;
        let nonce =
            Nonce::<XChaCha20Poly1305>::try_from(nonce).map_err(|_| "its nonce is short")?;
        let opened = key.cipher.decrypt(&nonce, Payload { msg: rest, aad: &[format] });
        opened.map_err(|_| "it was changed since it was encrypted".to_owned())
    }
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; KEY_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        let cipher = XChaCha20Poly1305::new(&bytes.into());
        // What the cipher makes of nothing: it says which key this is, and nothing of the key.
        let nonce = Nonce::<XChaCha20Poly1305>::default();
        let print = cipher.encrypt(&nonce, Payload { msg: &[], aad: b"mark" }).ok()?;
        Some(Self { mark: print.get(..MARK_BYTES)?.try_into().ok()?, cipher })
    }
}

/// Never the keys themselves.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// Why there is no key. It does not show the text that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// One of the keys is none.
    #[error(
        "encryption key {key} is not 64 hexadecimal digits; make one with `openssl rand -hex 32` and set it in \
         {KEY_VARIABLE}"
    )]
    NotAKey {
        /// Which one, counted from one.
        key: usize,
    },
    /// The environment has none.
    #[error("{KEY_VARIABLE} is not set; make a key with `openssl rand -hex 32`")]
    Missing,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::Codec, Keys};

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_key_that_is_asked_for_and_not_there_is_an_error() {
        let said = Keys::require_env().unwrap_err().to_string();
        assert!(said.contains("GRAPH_STORE_KEY is not set; make a key"), "{said}");
    }

    fn codec(keys: &str) -> Codec {
        Codec::new(1 << 20).with_keys(Some(Keys::parse(keys).unwrap()))
    }

    fn what() -> String {
        "it".to_owned()
    }

    #[test]
    fn sealed_values_are_read_with_their_key_only() {
        let secret = json!("the launch code");
        let bytes = codec(OLD).encode(what, &secret).unwrap();
        assert!(!bytes.windows(6).any(|it| it == b"launch"));
        assert_eq!(codec(OLD).decode::<Value>(what, &bytes).unwrap(), secret);
        let rotated = codec(&format!("{NEW}, {OLD}"));
        assert_eq!(rotated.decode::<Value>(what, &bytes).unwrap(), secret);
        let error = codec(NEW).decode::<Value>(what, &bytes).unwrap_err();
        assert!(error.to_string().contains("another key"), "{error}");
        assert!(Codec::new(99).decode::<Value>(what, &bytes).is_err());
    }

    #[test]
    fn no_byte_can_be_changed() {
        let bytes = codec(OLD).encode(what, &json!([1, 2, 3])).unwrap();
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            assert!(codec(OLD).decode::<Value>(what, &changed).is_err(), "byte {position}");
        }
        for length in 0..bytes.len() {
            assert!(codec(OLD).decode::<Value>(what, &bytes[..length]).is_err());
        }
    }

    #[test]
    fn equal_values_are_sealed_differently() {
        let codec = codec(OLD);
        assert_ne!(codec.encode(what, &1).unwrap(), codec.encode(what, &1).unwrap());
    }

    #[test]
    fn a_bad_key_is_named_by_its_place_and_not_shown() {
        let error = Keys::parse(&format!("{OLD},secret")).unwrap_err();
        assert!(error.to_string().contains("key 2"));
        assert!(!error.to_string().contains("secret"));
    }
}

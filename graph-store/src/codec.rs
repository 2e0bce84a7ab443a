//! The stored form of values: one byte for the format, a checksum, then MessagePack; or sealed, if there is a key.
//!
//! MessagePack, because it describes itself (a dump can be read without our types), keeps every number bit by bit,
//! and is smaller and faster than JSON text. Structs are stored by field name, so that a field can be added later.
//! The checksum is there because databases have none for the pages of their files, and a flipped bit in a number
//! would otherwise be a different number. What is sealed is checked by its seal.
//! Reading builds plain data and nothing else: no type is named in what is stored, and no code runs.

#[cfg(feature = "encryption")]
mod seal;

use std::io::Cursor;

use serde::{Serialize, de::DeserializeOwned};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(feature = "encryption")]
pub use seal::{KEY_VARIABLE, KeyError, Keys};

/// How deep a value may be when it is read: deeper than the engine lets any become, and far from the stack's end.
const MAX_DEPTH: usize = 256;

const CHECKSUM_BYTES: usize = 4;

/// How large one stored value may be unless the settings say otherwise.
pub(crate) const MAX_VALUE_BYTES: usize = 256 << 20;

/// The format's number, which is the first byte of every value.
const PLAIN: u8 = 1;
#[cfg(feature = "encryption")]
const SEALED: u8 = 2;
/// Sealed values are known in builds without encryption too, to say what is missing.
#[cfg(not(feature = "encryption"))]
const SEALED: u8 = 2;

/// Turns values into their stored form and back.
#[derive(Clone, Debug)]
pub(crate) struct Codec {
    limit: usize,
    #[cfg(feature = "encryption")]
    keys: Option<Keys>,
}

impl Codec {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    #[cfg(feature = "encryption")]
    pub(crate) fn with_keys(mut self, keys: Option<Keys>) -> Self {
        self.keys = keys;
        self
    }

    /// Encodes a value; `what` names it in errors.
    pub(crate) fn encode(
        &self,
        what: impl Fn() -> String,
        value: &impl Serialize,
    ) -> Result<Vec<u8>, CodecError> {
        // With room for what most values take.
        let mut bytes = Vec::with_capacity(256);
        bytes.extend([PLAIN, 0, 0, 0, 0]);
        rmp_serde::encode::write_named(&mut bytes, value)
            .map_err(|error| CodecError::Encode { what: what(), problem: error.to_string() })?;
        if bytes.len() > self.limit {
            let (bytes, limit) = (bytes.len(), self.limit);
            return Err(CodecError::TooLarge { what: what(), bytes, limit });
        }
        #[cfg(feature = "encryption")]
        if let Some(keys) = &self.keys {
            return keys
                .seal(SEALED, &bytes[1 + CHECKSUM_BYTES..])
                .map_err(|problem| CodecError::Encode { what: what(), problem });
        }
        let sum = checksum(&bytes[1 + CHECKSUM_BYTES..]);
        bytes[1..=CHECKSUM_BYTES].copy_from_slice(&sum);
        Ok(bytes)
    }

    /// Decodes a value; `what` names it in errors.
    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        what: impl Fn() -> String,
        bytes: &[u8],
    ) -> Result<T, CodecError> {
        match bytes.split_first() {
            Some((&PLAIN, checked)) => match checked.split_at_checked(CHECKSUM_BYTES) {
                Some((sum, packed)) if sum == checksum(packed) => unpack(what, packed),
                _ => {
                    let problem = "it was changed since it was stored: its checksum is wrong";
                    Err(CodecError::Decode { what: what(), problem: problem.to_owned() })
                }
            },
            #[cfg(feature = "encryption")]
            Some((&SEALED, sealed)) => match &self.keys {
                None => Err(CodecError::Locked { what: what() }),
                Some(keys) => match keys.open(SEALED, sealed) {
                    Ok(packed) => unpack(what, &packed),
                    Err(problem) => Err(CodecError::Decode { what: what(), problem }),
                },
            },
            #[cfg(not(feature = "encryption"))]
            Some((&SEALED, _)) => Err(CodecError::Locked { what: what() }),
            Some((&format, _)) => Err(CodecError::Format { what: what(), format }),
            None => Err(CodecError::Decode { what: what(), problem: "it is empty".to_owned() }),
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    (xxh3_64(bytes) as u32).to_le_bytes()
}

fn unpack<T: DeserializeOwned>(what: impl Fn() -> String, packed: &[u8]) -> Result<T, CodecError> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(packed));
    reader.set_max_depth(MAX_DEPTH);
    match T::deserialize(&mut reader) {
        Ok(value) if reader.position() == packed.len() as u64 => Ok(value),
        Ok(_) => {
            let problem = "more bytes follow than belong to it".to_owned();
            Err(CodecError::Decode { what: what(), problem })
        }
        Err(error) => Err(locate::<T>(what(), packed, &error)),
    }
}

/// Says where in the value the fault lies. It reads the value again, more slowly.
#[cold]
fn locate<T: DeserializeOwned>(
    what: String,
    packed: &[u8],
    error: &rmp_serde::decode::Error,
) -> CodecError {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(packed));
    reader.set_max_depth(MAX_DEPTH);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) if error.path().iter().len() > 0 => format!(" at `{}`", error.path()),
        _ => String::new(),
    };
    CodecError::Decode { what: what + &path, problem: error.to_string() }
}

/// A value that cannot be stored, or cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// It is larger than the limit.
    #[error(
        "{what} takes {bytes} bytes, and at most {limit} are stored; keep large data elsewhere and a reference to \
         it in the state, or raise `max_value_bytes`"
    )]
    TooLarge {
        /// The value.
        what: String,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// It has no stored form.
    #[error("{what} cannot be stored: {problem}")]
    Encode {
        /// The value.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// It is not what it should be.
    #[error("{what} cannot be read: {problem}")]
    Decode {
        /// The value, with the path inside it where the fault lies.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// A later version of this library wrote it.
    #[error(
        "{what} is stored in format {format}, which this version does not know; use a newer one"
    )]
    Format {
        /// The value.
        what: String,
        /// The number of its format.
        format: u8,
    },
    /// It is sealed, and there is no key.
    #[error(
        "{what} is encrypted; build with the feature `encryption` and give the key that it was stored with"
    )]
    Locked {
        /// The value.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Codec, CodecError};

    fn codec() -> Codec {
        Codec::new(1 << 20)
    }

    fn what() -> String {
        "field `x`".to_owned()
    }

    #[test]
    fn every_number_comes_back_bit_by_bit() {
        for value in [
            json!(9_399_999_944.939_999_f64),
            json!(-0.0),
            json!(1.0),
            json!(f64::MIN_POSITIVE),
            json!(u64::MAX),
            json!(i64::MIN),
            json!({"a": [1, 2.5, null, true, "é\0\u{1F980}"]}),
        ] {
            let bytes = codec().encode(what, &value).unwrap();
            let back: Value = codec().decode(what, &bytes).unwrap();
            assert_eq!(back.to_string(), value.to_string());
        }
    }

    #[test]
    fn what_is_too_large_says_what_and_how_large() {
        let error = codec().encode(what, &"x".repeat(2 << 20)).unwrap_err();
        assert!(matches!(error, CodecError::TooLarge { limit, .. } if limit == 1 << 20));
        assert!(error.to_string().starts_with("field `x` takes 20971"), "{error}");
    }

    #[test]
    fn an_unreadable_value_names_the_path() {
        let bytes = codec().encode(what, &json!({"items": [1, "two"]})).unwrap();
        #[derive(Debug, serde::Deserialize)]
        struct Doc {
            #[expect(dead_code, reason = "only read by serde")]
            items: Vec<u8>,
        }
        let error = codec().decode::<Doc>(what, &bytes).unwrap_err();
        assert!(error.to_string().contains("field `x` at `items[1]`"), "{error}");
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let bytes = codec().encode(what, &json!({"amount": 1000, "to": "Ada"})).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(codec().decode::<Value>(what, &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn what_follows_a_value_is_noticed() {
        let mut bytes = codec().encode(what, &1).unwrap();
        bytes.push(0);
        let sum = super::checksum(&bytes[5..]);
        bytes[1..5].copy_from_slice(&sum);
        let error = codec().decode::<u8>(what, &bytes).unwrap_err();
        assert!(error.to_string().contains("more bytes follow"), "{error}");
    }

    #[test]
    fn foreign_bytes_are_errors() {
        for bytes in [&[][..], &[9, 1], &[1], &[1, 0, 0, 0, 0], &[1, 1, 1], &[2, 0, 0]] {
            assert!(codec().decode::<Value>(what, bytes).is_err(), "{bytes:?}");
        }
        let format = codec().decode::<Value>(what, &[9]).unwrap_err();
        assert_eq!(format, CodecError::Format { what: what(), format: 9 });
        let locked = codec().decode::<Value>(what, &[2, 0]).unwrap_err();
        assert_eq!(locked, CodecError::Locked { what: what() });
    }
}

//! The stored form of values: a format byte, a checksum and MessagePack data. If an encryption key is configured,
//! the data is encrypted; otherwise, large values can be compressed.
//!
//! MessagePack is self-describing (a dump can be read without our types), preserves numbers exactly, and is smaller
//! and faster than JSON text. Structs are stored with their field names, so that fields can be added later. The
//! checksum detects bit flips, because the databases do not checksum the pages of their files; encrypted values are
//! authenticated by the cipher instead. Decoding only builds plain data: stored values do not name Rust types, and
//! decoding executes no code from them.

#[cfg(feature = "compression")]
mod compression;
#[cfg(feature = "encryption")]
mod encryption;
#[cfg(test)]
mod tests;

use std::io::Cursor;

use serde::{Serialize, de::DeserializeOwned};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(feature = "encryption")]
pub use encryption::{KEY_VARIABLE, KeyError, Keys};

/// Maximum nesting depth of a decoded value. It is larger than the depth that the engine permits, and small enough
/// that decoding does not overflow the stack.
const MAX_DEPTH: usize = 256;

const CHECKSUM_BYTES: usize = 4;

/// Default maximum size of one stored value, in bytes.
pub(crate) const MAX_VALUE_BYTES: usize = 256 << 20;

/// Format number of unencrypted values; the first byte of every value is a format number.
const PLAIN: u8 = 1;
/// Format number of encrypted values. Builds without encryption recognise it too, in order to report the missing
/// feature.
const ENCRYPTED: u8 = 2;
/// Format number of compressed values.
#[cfg(feature = "compression")]
const COMPRESSED: u8 = 3;

/// Smaller values are not compressed, because they would hardly become smaller.
#[cfg(feature = "compression")]
const MIN_COMPRESSED_BYTES: usize = 256;

/// Encodes values to their stored form and decodes them.
#[derive(Clone, Debug)]
pub(crate) struct Codec {
    limit: usize,
    #[cfg(feature = "compression")]
    compresses: bool,
    #[cfg(feature = "encryption")]
    keys: Option<Keys>,
}

impl Codec {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            #[cfg(feature = "compression")]
            compresses: false,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }

    #[cfg(feature = "compression")]
    pub(crate) fn with_compression(mut self, compresses: bool) -> Self {
        self.compresses = compresses;
        self
    }

    #[cfg(feature = "encryption")]
    pub(crate) fn with_keys(mut self, keys: Option<Keys>) -> Self {
        self.keys = keys;
        self
    }

    /// Encodes a value. `what` describes the value in error messages.
    pub(crate) fn encode(
        &self,
        what: impl Fn() -> String,
        value: &impl Serialize,
    ) -> Result<Vec<u8>, CodecError> {
        // This capacity is large enough for most values.
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
                .encrypt(ENCRYPTED, &bytes[1 + CHECKSUM_BYTES..])
                .map_err(|problem| CodecError::Encode { what: what(), problem });
        }
        #[cfg(feature = "compression")]
        if self.compresses && bytes.len() >= MIN_COMPRESSED_BYTES {
            let compressed =
                compression::compress(&[COMPRESSED, 0, 0, 0, 0], &bytes[1 + CHECKSUM_BYTES..]);
            if compressed.len() < bytes.len() {
                bytes = compressed;
            }
        }
        let sum = checksum(&bytes[1 + CHECKSUM_BYTES..]);
        bytes[1..=CHECKSUM_BYTES].copy_from_slice(&sum);
        Ok(bytes)
    }

    /// Decodes a value. `what` describes the value in error messages.
    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        what: impl Fn() -> String,
        bytes: &[u8],
    ) -> Result<T, CodecError> {
        match bytes.split_first() {
            Some((&PLAIN, checked)) => unpack(&what, verified(&what, checked)?),
            #[cfg(feature = "compression")]
            Some((&COMPRESSED, checked)) => {
                let packed = compression::decompress(verified(&what, checked)?, self.limit);
                match packed {
                    Ok(packed) => unpack(&what, &packed),
                    Err(problem) => Err(CodecError::Decode { what: what(), problem }),
                }
            }
            #[cfg(feature = "encryption")]
            Some((&ENCRYPTED, ciphertext)) => match &self.keys {
                None => Err(CodecError::KeyRequired { what: what() }),
                Some(keys) => match keys.decrypt(ENCRYPTED, ciphertext) {
                    Ok(packed) => unpack(&what, &packed),
                    Err(problem) => Err(CodecError::Decode { what: what(), problem }),
                },
            },
            #[cfg(not(feature = "encryption"))]
            Some((&ENCRYPTED, _)) => Err(CodecError::KeyRequired { what: what() }),
            Some((&format, _)) => Err(CodecError::UnknownFormat { what: what(), format }),
            None => Err(CodecError::Decode { what: what(), problem: "it is empty".to_owned() }),
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    (xxh3_64(bytes) as u32).to_le_bytes()
}

/// Returns the data that follows the checksum. Fails if the checksum does not match the data.
fn verified(what: impl Fn() -> String, checked: &[u8]) -> Result<&[u8], CodecError> {
    match checked.split_at_checked(CHECKSUM_BYTES) {
        Some((sum, data)) if sum == checksum(data) => Ok(data),
        _ => {
            let problem = "its checksum is wrong, so it was changed after it was stored";
            Err(CodecError::Decode { what: what(), problem: problem.to_owned() })
        }
    }
}

fn unpack<T: DeserializeOwned>(what: impl Fn() -> String, packed: &[u8]) -> Result<T, CodecError> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(packed));
    reader.set_max_depth(MAX_DEPTH);
    match T::deserialize(&mut reader) {
        Ok(value) if reader.position() == packed.len() as u64 => Ok(value),
        Ok(_) => {
            let problem = "unexpected bytes follow it".to_owned();
            Err(CodecError::Decode { what: what(), problem })
        }
        Err(error) => Err(decode_error::<T>(what(), packed, &error)),
    }
}

/// Returns an error with the path at which decoding failed. To find the path, decodes the value again with a slower
/// deserializer.
#[cold]
fn decode_error<T: DeserializeOwned>(
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

/// The error returned when a value cannot be encoded or decoded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value is larger than the limit.
    #[error(
        "{what} has {bytes} bytes, more than the limit of {limit}; store large data elsewhere and keep a reference to \
         it in the state, or raise `max_value_bytes`"
    )]
    TooLarge {
        /// Description of the value.
        what: String,
        /// Size of the value in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The value cannot be serialised.
    #[error("{what} cannot be stored: {problem}")]
    Encode {
        /// Description of the value.
        what: String,
        /// The cause.
        problem: String,
    },
    /// The stored bytes are damaged or do not match the expected type.
    #[error("{what} cannot be read: {problem}")]
    Decode {
        /// Description of the value, with the path at which decoding failed.
        what: String,
        /// The cause.
        problem: String,
    },
    /// The value was written by a newer version of this library.
    #[error(
        "{what} has format {format}, which this version of graph-store does not support; use a newer version"
    )]
    UnknownFormat {
        /// Description of the value.
        what: String,
        /// Format number of the value.
        format: u8,
    },
    /// The value is encrypted, but no key is configured.
    #[error(
        "{what} is encrypted; enable the feature `encryption` and provide the key it was encrypted with"
    )]
    KeyRequired {
        /// Description of the value.
        what: String,
    },
}

graph_core::readable_debug!(CodecError);

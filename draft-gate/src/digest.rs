//! SHA-256 digests, which also serve as the names of stored content.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, de};
use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the first 12 hexadecimal digits, for messages.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// Returns the first 32 hexadecimal digits, which are still collision-resistant enough for file names.
    pub(crate) fn half(&self) -> String {
        self.to_string()[..32].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestParseError;

    fn from_str(text: &str) -> Result<Self, DigestParseError> {
        let mut bytes = [0; 32];
        // Upper-case digits are rejected, because a digest is also a file name and must have only one spelling.
        match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) if !text.contains(char::is_uppercase) => Ok(Self(bytes)),
            _ => Err(DigestParseError),
        }
    }
}

/// The error returned when a text is not a valid digest.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest must have 64 lower-case hexadecimal digits")]
pub struct DigestParseError;

impl fmt::Debug for DigestParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

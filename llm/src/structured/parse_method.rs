//! The methods by which a value is parsed from a reply.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The method by which a value was parsed from a reply. The variants are ordered from the most to the least reliable
/// method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParseMethod {
    /// The whole reply is JSON that conforms to the schema.
    Schema,
    /// The whole reply is JSON that conforms to the schema after the changes listed in the notes.
    Json,
    /// The value is JSON that was embedded in prose or in a code block.
    JsonExtracted,
    /// The value was assembled from labelled values in prose.
    #[serde(rename = "regex")]
    Labels,
    /// The value comes from the reply to a second call.
    Repaired,
    /// The value is the caller's default.
    Default,
}

impl fmt::Display for ParseMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schema => "schema",
            Self::Json => "json",
            Self::JsonExtracted => "json_extracted",
            Self::Labels => "regex",
            Self::Repaired => "repaired",
            Self::Default => "default",
        })
    }
}

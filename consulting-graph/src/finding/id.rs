//! Ids of findings.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One of the two sets of findings.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Inference {
    /// Derived from the financial document.
    F1,
    /// Derived from the news document.
    F2,
}

/// Id of a finding, as used in citations: `F1-07`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FindingId {
    pub inference: Inference,
    /// The number of the finding within its set, counted from 1.
    pub number: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a finding id; use a form such as F1-07")]
pub struct FindingIdError(pub String);

impl FindingId {
    /// Parses an id. Brackets and leading zeros are optional.
    pub fn parse(text: &str) -> Result<Self, FindingIdError> {
        let error = || FindingIdError(text.to_owned());
        let bare = text.trim().trim_start_matches('[').trim_end_matches(']').to_ascii_uppercase();
        let (document, number) = bare.split_once('-').ok_or_else(error)?;
        let inference = match document {
            "F1" => Inference::F1,
            "F2" => Inference::F2,
            _ => return Err(error()),
        };
        let number = number.parse().map_err(|_| error())?;
        if number == 0 { Err(error()) } else { Ok(Self { inference, number }) }
    }
}

/// Returns everything in a text that looks like a citation: the byte offset, and the id or the parse error.
pub(crate) fn find_citations(text: &str) -> Vec<(usize, Result<FindingId, FindingIdError>)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(['F', 'f']).map(|it| from + it) {
        let length = citation_length(&text[at..]);
        let starts_word = !text[..at].ends_with(|it: char| it.is_alphanumeric() || it == '-');
        if length > 0 && starts_word {
            found.push((at, FindingId::parse(&text[at..at + length])));
        }
        from = at + length.max(1);
    }
    found
}

/// Returns the length in bytes of the citation (`F`, digit, hyphen, digits) that the text starts with, or 0 if it does
/// not start with a citation.
fn citation_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from.min(bytes.len())..].iter().take_while(|it| it.is_ascii_digit()).count()
    };
    if digits(1) != 1 || bytes.get(2) != Some(&b'-') {
        return 0;
    }
    match digits(3) {
        0 => 0,
        n if text[3 + n..].starts_with(char::is_alphanumeric) => 0,
        n => 3 + n,
    }
}

impl fmt::Display for Inference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F1 => "F1",
            Self::F2 => "F2",
        })
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}", self.inference, self.number)
    }
}

impl TryFrom<String> for FindingId {
    type Error = FindingIdError;

    fn try_from(text: String) -> Result<Self, FindingIdError> {
        Self::parse(&text)
    }
}

impl From<FindingId> for String {
    fn from(id: FindingId) -> Self {
        id.to_string()
    }
}

impl JsonSchema for FindingId {
    fn schema_name() -> Cow<'static, str> {
        "FindingId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^F[12]-[0-9]{2}$" })
    }
}

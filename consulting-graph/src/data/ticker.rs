//! Ticker symbols.

use std::fmt;

use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 12;

/// The ticker symbol of a listed company, in upper case.
///
/// Tickers appear in prompts, file names and sandbox names, so only characters that are safe in all of them are
/// accepted.
///
/// ```
/// use consulting_graph::data::Ticker;
///
/// let ticker = Ticker::parse(" brk.b ")?;
/// assert_eq!(ticker.as_str(), "BRK.B");
/// assert_eq!(ticker.slug(), "brk-b");
/// assert!(Ticker::parse("../../etc").is_err());
/// # Ok::<(), consulting_graph::data::TickerError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ticker(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickerError {
    #[error("the ticker is empty; enter one such as NVDA")]
    Empty,
    #[error(
        "a ticker has at most {MAX_LENGTH} characters, but this one has {0}; enter one such as NVDA"
    )]
    TooLong(usize),
    #[error(
        "invalid character {0:?} in the ticker; use letters, digits, `.`, `-`, `=` and a leading `^`, as in BRK.B"
    )]
    Character(char),
}

impl Ticker {
    /// Parses a ticker as entered by a user. Removes surrounding whitespace and converts letters to upper case.
    pub fn parse(text: &str) -> Result<Self, TickerError> {
        let text = text.trim();
        let length = text.chars().count();
        if length == 0 {
            return Err(TickerError::Empty);
        }
        if length > MAX_LENGTH {
            return Err(TickerError::TooLong(length));
        }
        let mut before = None;
        for (idx, it) in text.chars().enumerate() {
            let follows_letter = before.is_some_and(|it: char| it.is_ascii_alphanumeric());
            let fits = match it {
                '^' => idx == 0,
                '.' | '-' | '=' => follows_letter,
                _ => it.is_ascii_alphanumeric(),
            };
            if !fits {
                return Err(TickerError::Character(it));
            }
            before = Some(it);
        }
        match before {
            Some(last) if !last.is_ascii_alphanumeric() => Err(TickerError::Character(last)),
            _ => Ok(Self(text.to_ascii_uppercase())),
        }
    }

    /// Returns the ticker in upper case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the ticker in a form that can be part of a file or sandbox name: lower-case letters, digits and hyphens.
    pub fn slug(&self) -> String {
        let dashed: String = self
            .0
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' })
            .collect();
        dashed.trim_matches('-').to_owned()
    }
}

impl fmt::Display for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Ticker {
    type Error = TickerError;

    fn try_from(text: String) -> Result<Self, TickerError> {
        Self::parse(&text)
    }
}

impl From<Ticker> for String {
    fn from(ticker: Ticker) -> Self {
        ticker.0
    }
}

//! Tickers: what a user may type to name a company.

use std::fmt;

use serde::{Deserialize, Serialize};

const LONGEST: usize = 12;

/// The symbol of a listed company, in capitals.
///
/// It ends up in prompts, file names and names of sandboxes, so nothing gets in that means something there.
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

/// Why a text is no ticker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickerError {
    /// Nothing was given.
    #[error("the ticker is empty; give one like NVDA")]
    Empty,
    /// It is longer than any ticker.
    #[error("a ticker has at most {LONGEST} characters, this one has {0}; give one like NVDA")]
    TooLong(usize),
    /// It holds something that no ticker holds.
    #[error(
        "a ticker cannot hold {0:?} there; it is letters, digits, `.`, `-`, `=` and a leading `^`, like BRK.B"
    )]
    Character(char),
}

impl Ticker {
    /// Reads a ticker as a user types it: blanks around it and small letters are put right, all else is an error.
    pub fn parse(text: &str) -> Result<Self, TickerError> {
        let text = text.trim();
        let length = text.chars().count();
        if length == 0 {
            return Err(TickerError::Empty);
        }
        if length > LONGEST {
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

    /// The ticker in capitals.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The ticker as a part of names: small letters, digits and dashes only.
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

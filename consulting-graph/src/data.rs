//! What is known of a company, whatever it was read from.
//!
//! Three sources fill the same [`Company`]: [`synthetic`] invents one, [`edgar`] reads what was filed with the SEC, and
//! [`folder`] reads the user's own files. Each number says where it comes from, and everything that is computed from
//! numbers ([`ratio`]) is computed here and never by a model.

pub mod edgar;
pub mod folder;
mod item;
mod near;
mod news;
pub mod number;
mod origin;
mod random;
pub mod ratio;
pub mod render;
mod source;
mod statement;
pub mod synthetic;
mod ticker;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

pub use item::{Item, Unit};
pub use news::{Competitor, News, NewsItem, PredictionMarket, Rating, Sentiment, Thread};
pub use origin::{Fact, Origin};
pub(crate) use random::Chance;
pub use source::{DataError, DataSource, From};
pub use statement::{Period, Statement};
pub use ticker::{Ticker, TickerError};

/// Everything the first layer hands on about one company.
///
/// A source that does not know something leaves it empty; the documents then say so instead of filling the gap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Company {
    /// The ticker asked for.
    pub ticker: Ticker,
    /// The company's name, as the source gives it.
    pub name: String,
    /// The sector, where the source knows it.
    pub sector: Option<String>,
    /// Which source filled this.
    pub source: Source,
    /// The day of the knowledge: nothing that became known later is in here.
    pub as_of: NaiveDate,
    /// Full fiscal years, oldest first.
    pub annuals: Vec<Statement>,
    /// Fiscal quarters, oldest first.
    pub quarters: Vec<Statement>,
    /// Revenue of the last quarters by segment.
    pub segments: Vec<Split>,
    /// Revenue of the last quarters by region.
    pub geography: Vec<Split>,
    /// Month-end closing prices, oldest first.
    pub prices: Vec<Price>,
    /// What is usual in the sector, for [`ratio::table`].
    pub sector_ratios: Vec<SectorRatio>,
    /// What the company counts besides money.
    pub metrics: Vec<Note>,
    /// What management said to expect.
    pub guidance: Vec<Note>,
    /// What happened lately.
    pub events: Vec<Note>,
    /// News and sentiment, where the source has any.
    pub news: Option<News>,
    /// Documents that are handed on as they are.
    pub documents: Vec<Document>,
    /// What the source could not use, and why.
    pub warnings: Vec<String>,
}

/// Where the data of a company come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Invented, from the ticker alone.
    Synthetic,
    /// Filed with the SEC.
    Edgar,
    /// The user's own files.
    Folder,
}

/// Revenue of one quarter, cut into named parts that add up to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The quarter.
    pub period: Period,
    /// Name and dollars of each part.
    pub parts: Vec<(String, i64)>,
}

/// A closing price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// The day.
    pub date: NaiveDate,
    /// The price in cents.
    pub cents: i64,
}

/// What a ratio usually is in the company's sector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SectorRatio {
    /// The name under which [`ratio::table`] lists it.
    pub name: String,
    /// Its usual value, as a share of one.
    pub value: f64,
}

/// A dated remark in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When it was said or happened, if that is known.
    pub date: Option<NaiveDate>,
    /// The remark.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// A text of the user's, kept line by line so that a quotation can name its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The file's name.
    pub name: String,
    /// To which of the two documents it belongs.
    pub about: Subject,
    /// The text.
    pub text: String,
}

/// The two subjects of the first layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Statements, ratios, guidance.
    Financial,
    /// News, sentiment, competitors.
    Trend,
}

impl Company {
    /// An otherwise empty company.
    pub fn new(ticker: Ticker, name: impl Into<String>, source: Source, as_of: NaiveDate) -> Self {
        Self {
            ticker,
            name: name.into(),
            sector: None,
            source,
            as_of,
            annuals: Vec::new(),
            quarters: Vec::new(),
            segments: Vec::new(),
            geography: Vec::new(),
            prices: Vec::new(),
            sector_ratios: Vec::new(),
            metrics: Vec::new(),
            guidance: Vec::new(),
            events: Vec::new(),
            news: None,
            documents: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The statement of the same quarter, or of the year, one year before `statement`.
    pub fn year_before(&self, statement: &Statement) -> Option<&Statement> {
        let wanted = statement.period.year_before();
        self.annuals.iter().chain(&self.quarters).find(|it| it.period == wanted)
    }
}

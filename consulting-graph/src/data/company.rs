//! The data about one company.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{
    current_report::CurrentReport,
    news::News,
    origin::Origin,
    statement::{Period, Statement},
    ticker::Ticker,
};

/// The data about one company, which the first layer of the pipeline passes to the second.
///
/// A field for which the source has no data is left empty. The rendered documents then state that the data is not
/// available.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Company {
    pub ticker: Ticker,
    /// The company's name as stated by the source.
    pub name: String,
    /// The number under which the company files with the SEC, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cik: Option<u64>,
    /// The sector, if the source states it.
    pub sector: Option<String>,
    /// The kind of source that the data was read from.
    pub source: Source,
    /// Cut-off date: data published after this date is excluded.
    pub as_of: NaiveDate,
    /// Full fiscal years, oldest first.
    pub annuals: Vec<Statement>,
    /// Fiscal quarters, oldest first.
    pub quarters: Vec<Statement>,
    /// Revenue of the most recent quarters by segment.
    pub segments: Vec<Split>,
    /// Revenue of the most recent quarters by region.
    pub geography: Vec<Split>,
    /// Month-end closing prices, oldest first.
    pub prices: Vec<Price>,
    /// Typical ratios in the company's sector, shown next to the company's own ratios in the table of ratios.
    pub sector_ratios: Vec<SectorRatio>,
    /// Business metrics that are not line items of a financial statement, for example customer churn.
    pub metrics: Vec<Note>,
    pub guidance: Vec<Note>,
    /// Recent corporate events.
    pub events: Vec<Note>,
    /// Filings of form 8-K, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_reports: Vec<CurrentReport>,
    /// News and sentiment, if the source has any.
    pub news: Option<News>,
    /// The user's documents, which are passed on unchanged.
    pub documents: Vec<Document>,
    /// Descriptions of input that was ignored or looks wrong, each with the reason.
    pub warnings: Vec<String>,
}

/// The kind of source that company data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Generated from the ticker; not a real company.
    Synthetic,
    /// SEC filings, from the snapshot that is part of the program.
    Snapshot,
    /// SEC filings.
    Edgar,
    /// The user's own files.
    Folder,
}

/// Revenue of one quarter, split into named parts that add up to the total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    pub period: Period,
    /// The name of each part and its revenue in dollars.
    pub parts: Vec<(String, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// The trading day.
    pub date: NaiveDate,
    pub cents: i64,
}

/// Typical value of a ratio in the company's sector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SectorRatio {
    /// The ratio's name in the table of ratios.
    pub name: String,
    /// The typical value. A percentage is stored as a fraction, so that 25% is 0.25.
    pub value: f64,
}

/// A statement in words, for example a piece of guidance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The date of the statement or event, if known.
    pub date: Option<NaiveDate>,
    pub text: String,
    pub origin: Origin,
}

/// A text supplied by the user. It is rendered with line numbers so that quotations can refer to a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub name: String,
    /// The source document that this text is appended to.
    pub about: Subject,
    pub text: String,
}

/// The subjects of the two source documents that the first layer of the pipeline produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Statements, ratios, guidance.
    Financial,
    /// News, sentiment, competitors.
    Trend,
}

impl Company {
    /// Creates a company without data.
    pub fn new(ticker: Ticker, name: impl Into<String>, source: Source, as_of: NaiveDate) -> Self {
        Self {
            ticker,
            name: name.into(),
            cik: None,
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
            current_reports: Vec::new(),
            news: None,
            documents: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Describes the source of the figures and its date in one sentence.
    pub fn source_notice(&self) -> String {
        let as_of = self.as_of;
        match self.source {
            Source::Synthetic => {
                "Synthetic data: the company and all its figures are fictional.".to_owned()
            }
            Source::Snapshot => format!(
                "Source of the figures: SEC EDGAR company facts filed up to {as_of}, from the snapshot included in \
                 this program."
            ),
            Source::Edgar => format!(
                "Source of the figures: SEC EDGAR company facts, without filings after {as_of}."
            ),
            Source::Folder => {
                format!("Source of the figures: the user's own files, as of {as_of}.")
            }
        }
    }

    /// Returns a notice that explains why there are no figures by segment, if the source cannot contain any.
    pub(crate) fn missing_segments_notice(&self) -> Option<&'static str> {
        match self.source {
            Source::Snapshot | Source::Edgar => Some(
                "There is no chart of segments, because the company facts of SEC EDGAR contain no figures by segment.",
            ),
            Source::Synthetic | Source::Folder => None,
        }
    }

    /// Returns whether the source has news or a document of the user on news.
    pub fn has_news(&self) -> bool {
        self.news.as_ref().is_some_and(|it| *it != News::default())
            || self.documents.iter().any(|it| it.about == Subject::Trend)
    }

    /// Returns the statement for the period one year before that of `statement`.
    pub(crate) fn year_before(&self, statement: &Statement) -> Option<&Statement> {
        let wanted = statement.period.year_before();
        self.annuals.iter().chain(&self.quarters).find(|it| it.period == wanted)
    }
}

//! Types for news and sentiment about a company.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// News and opinions about a company.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct News {
    /// Press coverage, newest first.
    pub items: Vec<NewsItem>,
    /// Forum threads of private investors.
    pub threads: Vec<ForumThread>,
    /// Prediction markets about future events.
    pub markets: Vec<PredictionMarket>,
    /// Recent actions of competitors.
    pub competitors: Vec<Competitor>,
    /// Ratings by financial analysts.
    pub ratings: Vec<Rating>,
}

/// One press article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewsItem {
    pub publisher: String,
    pub date: NaiveDate,
    pub headline: String,
    pub text: String,
    /// The tone of the article towards the company.
    pub sentiment: Sentiment,
}

/// Tone of a text towards the company.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sentiment {
    Positive,
    Negative,
    /// Partly favourable and partly unfavourable, or neutral.
    Mixed,
}

impl Sentiment {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
            Self::Mixed => "mixed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForumThread {
    pub title: String,
    /// Upvotes minus downvotes.
    pub score: i64,
    /// The comments with the most votes.
    pub comments: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionMarket {
    pub event: String,
    /// The event's probability according to the market, in percent.
    pub percent: u8,
    /// Traded volume in dollars.
    pub volume: i64,
}

/// A recent action of a competitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Competitor {
    pub name: String,
    /// The action, written as the predicate of a sentence whose subject is the competitor's name.
    pub text: String,
}

/// A financial analyst's rating.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rating {
    /// The analyst's firm.
    pub house: String,
    /// The recommendation: `buy`, `hold` or `sell`.
    pub advice: String,
    pub target_cents: i64,
    /// The rationale.
    pub text: String,
}

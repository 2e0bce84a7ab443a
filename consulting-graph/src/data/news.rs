//! News and sentiment about a company.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// What is said about a company, by whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct News {
    /// Coverage in the press, newest first.
    pub items: Vec<NewsItem>,
    /// Threads of private investors.
    pub threads: Vec<Thread>,
    /// Markets on future events.
    pub markets: Vec<PredictionMarket>,
    /// What competitors did.
    pub competitors: Vec<Competitor>,
    /// What analysts advise their clients.
    pub ratings: Vec<Rating>,
}

/// One piece of coverage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewsItem {
    /// Who published it.
    pub publisher: String,
    /// When.
    pub date: NaiveDate,
    /// Its headline.
    pub headline: String,
    /// What it says.
    pub text: String,
    /// How it sounds.
    pub sentiment: Sentiment,
}

/// How a text sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sentiment {
    /// Good for the company.
    Positive,
    /// Bad for the company.
    Negative,
    /// Both, or neither.
    Mixed,
}

/// A thread in a forum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its title.
    pub title: String,
    /// Votes for it less votes against it.
    pub score: i64,
    /// The comments voted highest.
    pub comments: Vec<String>,
}

/// A market on whether something will happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionMarket {
    /// The event.
    pub event: String,
    /// The market's probability, in percent.
    pub percent: u8,
    /// What was traded, in dollars.
    pub volume: i64,
}

/// Something a competitor did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Competitor {
    /// The competitor.
    pub name: String,
    /// What it did.
    pub text: String,
}

/// An analyst's opinion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rating {
    /// The house.
    pub house: String,
    /// Its advice.
    pub advice: String,
    /// Its price target in cents.
    pub target_cents: i64,
    /// Why.
    pub text: String,
}

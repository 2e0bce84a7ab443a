//! Renders the document on news and sentiment.

use super::{
    super::{
        company::{Company, Subject},
        news::{ForumThread, News, NewsItem, PredictionMarket, Rating},
        number,
    },
    layout::{documents, header, push_section},
    trends::trends,
};

/// The sections of the news document, in order.
const SECTIONS: [&str; 5] = [
    "Recent News Coverage", "Social Sentiment", "Prediction Market Signals", "Competitor Activity",
    "Analyst Ratings",
];

/// Renders the news document as Markdown. For a company without news, renders the trends of its figures and its filing
/// events instead.
pub(crate) fn news(company: &Company) -> String {
    if !company.has_news() {
        return trends(company);
    }
    let mut text = header(company, "News and sentiment");
    let bodies: [String; 5] = match &company.news {
        Some(news) => {
            [coverage(news), threads(news), markets(news), competitors(news), ratings(news)]
        }
        None => Default::default(),
    };
    for (name, body) in SECTIONS.iter().zip(&bodies) {
        push_section(&mut text, name, body);
    }
    text.push_str(&documents(company, Subject::Trend));
    text
}

fn coverage(news: &News) -> String {
    let line = |it: &NewsItem| {
        format!(
            "- **{}** ({}, {}, {}): {}\n",
            it.headline,
            it.publisher,
            it.date,
            it.sentiment.name(),
            it.text
        )
    };
    news.items.iter().map(line).collect()
}

fn threads(news: &News) -> String {
    let thread = |it: &ForumThread| {
        let comments: String = it.comments.iter().map(|it| format!("  - {it}\n")).collect();
        format!("- **{}** (score {})\n{comments}", it.title, it.score)
    };
    news.threads.iter().map(thread).collect()
}

fn markets(news: &News) -> String {
    let line = |it: &PredictionMarket| {
        format!("- {}: {}% ({} traded)\n", it.event, it.percent, number::dollars(it.volume))
    };
    news.markets.iter().map(line).collect()
}

fn competitors(news: &News) -> String {
    news.competitors.iter().map(|it| format!("- **{}** {}\n", it.name, it.text)).collect()
}

fn ratings(news: &News) -> String {
    let line = |it: &Rating| {
        format!(
            "- **{}**: {}, target {}. {}\n",
            it.house,
            it.advice,
            number::cents(it.target_cents),
            it.text
        )
    };
    news.ratings.iter().map(line).collect()
}

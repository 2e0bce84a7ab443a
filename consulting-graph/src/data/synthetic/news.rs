//! Generates news, forum threads and ratings for a fictional company.
//!
//! All figures about the company come from its accounts. For every favourable interpretation of the figures there is an
//! unfavourable one.

use chrono::{Days, NaiveDate};

use super::{
    super::{
        company::Company,
        item::Item,
        news::{Competitor, ForumThread, News, NewsItem, PredictionMarket, Rating, Sentiment},
        number, ratio,
        rng::SeededRng,
    },
    profile::Profile,
};

/// Figures from the accounts that the news items quote.
struct KeyFigures {
    revenue: String,
    growth: String,
    margin: String,
    margin_before: String,
    receivables_growth: String,
    inventory_growth: String,
    free_cash: String,
    payout: String,
    leading_segment: String,
    young_segment: String,
}

pub(super) fn generate(company: &Company, profile: &Profile, rng: &mut SeededRng) -> News {
    let figures = key_figures(company);
    News {
        items: items(company, &figures, rng),
        threads: threads(&figures, rng),
        markets: markets(company, rng),
        competitors: competitors(profile, &figures, rng),
        ratings: ratings(company, &figures, rng),
    }
}

fn key_figures(company: &Company) -> KeyFigures {
    let newest = company.quarters.last();
    let before = newest.and_then(|it| company.year_before(it));
    let percent =
        |it: Option<f64>| it.map_or_else(|| "an unknown percentage".to_owned(), number::percent);
    let growth = |item| percent(newest.and_then(|it| ratio::year_over_year(company, it, item)));
    let money =
        |it: Option<i64>| it.map_or_else(|| "an undisclosed amount".to_owned(), number::dollars);
    let segment = |idx: usize| {
        let parts = company.segments.last().map(|it| it.parts.as_slice()).unwrap_or_default();
        parts.get(idx.min(parts.len().saturating_sub(1))).map(|it| it.0.clone()).unwrap_or_default()
    };
    let annual = company.annuals.last();
    KeyFigures {
        revenue: money(newest.and_then(|it| it.get(Item::Revenue))),
        growth: growth(Item::Revenue),
        margin: percent(newest.and_then(ratio::gross_margin)),
        margin_before: percent(before.and_then(ratio::gross_margin)),
        receivables_growth: growth(Item::Receivables),
        inventory_growth: growth(Item::Inventory),
        free_cash: money(annual.and_then(ratio::free_cash_flow)),
        payout: money(annual.and_then(ratio::payout)),
        leading_segment: segment(0),
        young_segment: segment(usize::MAX),
    }
}

fn items(company: &Company, it: &KeyFigures, rng: &mut SeededRng) -> Vec<NewsItem> {
    let (leading, young) = (&it.leading_segment, &it.young_segment);
    let texts = [
        (
            "The Ledger Wire",
            Sentiment::Positive,
            format!("Quarterly sales reach {}", it.revenue),
            format!(
                "Revenue changed by {} year over year, and management describes the order book as full.",
                it.growth
            ),
        ),
        (
            "Harbour Street Journal",
            Sentiment::Negative,
            "Customers are taking longer to pay".to_owned(),
            format!(
                "Receivables changed by {} while revenue changed by {}; analysts question the quality of the sales.",
                it.receivables_growth, it.growth
            ),
        ),
        (
            "Sector Weekly",
            Sentiment::Mixed,
            format!("{young} gains weight as {leading} matures"),
            format!(
                "{young} contributes a growing share of sales, but {leading} still funds the business."
            ),
        ),
        (
            "Margin Notes",
            Sentiment::Negative,
            "A closer look at gross margin".to_owned(),
            format!(
                "Gross margin stands at {}, compared with {} a year earlier.",
                it.margin, it.margin_before
            ),
        ),
        (
            "Open Floor",
            Sentiment::Positive,
            "Cash returned to shareholders".to_owned(),
            format!("The company returned {} to shareholders over the last year.", it.payout),
        ),
        (
            "Plant & Process",
            Sentiment::Mixed,
            "Inventory draws attention".to_owned(),
            format!(
                "Inventory changed by {} in a year; the company calls it preparation, a supplier calls it caution.",
                it.inventory_growth
            ),
        ),
    ];
    let mut date = company.as_of;
    texts
        .into_iter()
        .map(|(publisher, sentiment, headline, text)| {
            date = earlier(date, rng.between(2, 9).unsigned_abs());
            NewsItem { publisher: publisher.to_owned(), date, headline, text, sentiment }
        })
        .collect()
}

fn earlier(date: NaiveDate, days: u64) -> NaiveDate {
    date.checked_sub_days(Days::new(days)).unwrap_or(date)
}

fn threads(it: &KeyFigures, rng: &mut SeededRng) -> Vec<ForumThread> {
    let threads = [
        (
            "Is the growth real?",
            [
                format!(
                    "Revenue growth of {} tells me the story is intact. I'm holding.",
                    it.growth
                ),
                format!(
                    "Receivables moved by {}. That worries me, so I sold half.",
                    it.receivables_growth
                ),
            ],
        ),
        (
            "Where does the cash go?",
            [
                format!("{} of free cash flow in a year, and nobody talks about it.", it.free_cash),
                format!("They paid out {}. What does that leave for the plants?", it.payout),
            ],
        ),
        (
            "View from a customer",
            [
                format!("{} is a clear improvement over what we used before.", it.young_segment),
                "Support takes a week to reply. We are evaluating alternatives.".to_owned(),
            ],
        ),
    ];
    threads
        .into_iter()
        .map(|(title, comments)| ForumThread {
            title: title.to_owned(),
            score: rng.between(40, 2_400),
            comments: comments.into(),
        })
        .collect()
}

fn markets(company: &Company, rng: &mut SeededRng) -> Vec<PredictionMarket> {
    let events = [
        "Next quarter's revenue above the midpoint of guidance",
        "Full-year operating margin below target",
        "An acquisition worth more than a tenth of annual revenue within twelve months",
        "A change of chief executive within twelve months",
    ];
    let revenue = company.quarters.last().and_then(|it| it.get(Item::Revenue)).unwrap_or(0);
    events
        .into_iter()
        .map(|event| PredictionMarket {
            event: event.to_owned(),
            percent: u8::try_from(rng.between(12, 78)).unwrap_or(50),
            volume: (revenue / 20_000).max(1_000_000) / 1_000_000 * 1_000_000 * rng.between(1, 4),
        })
        .collect()
}

fn competitors(profile: &Profile, it: &KeyFigures, rng: &mut SeededRng) -> Vec<Competitor> {
    let acts = [
        format!("cut its prices for {} by {}%.", it.leading_segment, rng.between(5, 18)),
        format!(
            "opened a second site for {} and hired {} engineers.",
            it.young_segment,
            rng.between(2, 9) * 50
        ),
        format!("withdrew its guidance after orders came in {}% below plan.", rng.between(4, 15)),
    ];
    profile
        .sector
        .competitors
        .iter()
        .zip(acts)
        .map(|(name, text)| Competitor { name: (*name).to_owned(), text })
        .collect()
}

fn ratings(company: &Company, it: &KeyFigures, rng: &mut SeededRng) -> Vec<Rating> {
    let price = company.prices.last().map_or(10_000, |it| it.cents);
    let voices = [
        (
            "Fairweather & Sons",
            "buy",
            1_240,
            format!("The share price does not reflect growth of {}.", it.growth),
        ),
        (
            "Dunmore Research",
            "hold",
            1_010,
            format!("We would like to see a second year with a gross margin of {}.", it.margin),
        ),
        (
            "Greyfriars Capital",
            "sell",
            780,
            format!(
                "Working capital is absorbing the growth: receivables {}, inventory {}.",
                it.receivables_growth, it.inventory_growth
            ),
        ),
    ];
    voices
        .into_iter()
        .map(|(house, advice, permille, text)| Rating {
            house: house.to_owned(),
            advice: advice.to_owned(),
            target_cents: price * (permille + rng.between(-30, 30)) / 1000,
            text,
        })
        .collect()
}

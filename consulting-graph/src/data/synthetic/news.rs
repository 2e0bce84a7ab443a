//! What the press, the forums and the analysts of an invented company say.
//!
//! Each statement about the company takes its number from the books. For every voice there is one that reads the same
//! books the other way.

use chrono::{Days, NaiveDate};

use super::{
    super::{
        Competitor, News, NewsItem, PredictionMarket, Rating, Sentiment, Thread, number, ratio,
    },
    Chance, Company, Item, Profile,
};

/// The readings of the books that the news argue about.
struct Readings {
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

pub(super) fn invent(company: &Company, profile: &Profile, chance: &mut Chance) -> News {
    let readings = read(company);
    News {
        items: items(company, &readings, chance),
        threads: threads(&readings, chance),
        markets: markets(company, chance),
        competitors: competitors(profile, &readings, chance),
        ratings: ratings(company, &readings, chance),
    }
}

fn read(company: &Company) -> Readings {
    let newest = company.quarters.last();
    let before = newest.and_then(|it| company.year_before(it));
    let percent =
        |it: Option<f64>| it.map_or_else(|| "an unknown share".to_owned(), number::percent);
    let growth = |item| percent(newest.and_then(|it| ratio::year_over_year(company, it, item)));
    let money = |it: Option<i64>| it.map_or_else(|| "an unknown sum".to_owned(), number::dollars);
    let segment = |idx: usize| {
        let parts = company.segments.last().map(|it| it.parts.as_slice()).unwrap_or_default();
        parts.get(idx.min(parts.len().saturating_sub(1))).map(|it| it.0.clone()).unwrap_or_default()
    };
    let annual = company.annuals.last();
    Readings {
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

fn items(company: &Company, it: &Readings, chance: &mut Chance) -> Vec<NewsItem> {
    let (leading, young) = (&it.leading_segment, &it.young_segment);
    let texts = [
        (
            "The Ledger Wire",
            Sentiment::Positive,
            format!("Quarter closes with {} in sales", it.revenue),
            format!(
                "Revenue moved by {} against the year before, and management speaks of a full order book.",
                it.growth
            ),
        ),
        (
            "Harbour Street Journal",
            Sentiment::Negative,
            "Customers take longer to pay".to_owned(),
            format!(
                "Receivables changed by {} while revenue changed by {}; two readers of the balance sheet ask who is being sold to.",
                it.receivables_growth, it.growth
            ),
        ),
        (
            "Sector Weekly",
            Sentiment::Mixed,
            format!("{young} grows up, {leading} grows old"),
            format!(
                "{young} takes a larger part of sales every quarter, but {leading} still pays for it."
            ),
        ),
        (
            "Margin Notes",
            Sentiment::Negative,
            "What the gross margin says".to_owned(),
            format!(
                "Gross margin stands at {}, after {} a year before.",
                it.margin, it.margin_before
            ),
        ),
        (
            "Open Floor",
            Sentiment::Positive,
            "Cash returned to shareholders".to_owned(),
            format!("Over the last year {} went to shareholders.", it.payout),
        ),
        (
            "Plant & Process",
            Sentiment::Mixed,
            "Stocks in the warehouse".to_owned(),
            format!(
                "Inventory changed by {} in a year, which the company calls preparation and a supplier calls caution.",
                it.inventory_growth
            ),
        ),
    ];
    let mut date = company.as_of;
    texts
        .into_iter()
        .map(|(publisher, sentiment, headline, text)| {
            date = earlier(date, chance.between(2, 9).unsigned_abs());
            NewsItem { publisher: publisher.to_owned(), date, headline, text, sentiment }
        })
        .collect()
}

fn earlier(date: NaiveDate, days: u64) -> NaiveDate {
    date.checked_sub_days(Days::new(days)).unwrap_or(date)
}

fn threads(it: &Readings, chance: &mut Chance) -> Vec<Thread> {
    let threads = [
        (
            "Is the growth real?",
            [
                format!("{} more sales is {} more sales. I hold.", it.growth, it.growth),
                format!("Look at receivables: {}. I sold half.", it.receivables_growth),
            ],
        ),
        (
            "Free cash flow thread",
            [
                format!("{} of free cash flow in a year, and nobody talks about it.", it.free_cash),
                format!("They paid out {} of it. What is left for the plants?", it.payout),
            ],
        ),
        (
            "I work with their products",
            [
                format!("{} is better than what we had before.", it.young_segment),
                "Support takes a week to answer. We are looking at others.".to_owned(),
            ],
        ),
    ];
    threads
        .into_iter()
        .map(|(title, comments)| Thread {
            title: title.to_owned(),
            score: chance.between(40, 2_400),
            comments: comments.into(),
        })
        .collect()
}

fn markets(company: &Company, chance: &mut Chance) -> Vec<PredictionMarket> {
    let events = [
        "Revenue of the next quarter above the middle of the guided range",
        "Operating margin of the full year below the one aimed at",
        "An acquisition of over a tenth of yearly revenue within twelve months",
        "A change of chief executive within twelve months",
    ];
    let revenue = company.quarters.last().and_then(|it| it.get(Item::Revenue)).unwrap_or(0);
    events
        .into_iter()
        .map(|event| PredictionMarket {
            event: event.to_owned(),
            percent: u8::try_from(chance.between(12, 78)).unwrap_or(50),
            volume: (revenue / 20_000).max(1_000_000) / 1_000_000
                * 1_000_000
                * chance.between(1, 4),
        })
        .collect()
}

fn competitors(profile: &Profile, it: &Readings, chance: &mut Chance) -> Vec<Competitor> {
    let acts = [
        format!("cut its prices for {} by {}%.", it.leading_segment, chance.between(5, 18)),
        format!(
            "opened a second site for {} and hired {} engineers.",
            it.young_segment,
            chance.between(2, 9) * 50
        ),
        format!(
            "withdrew its guidance, because orders came in {}% under plan.",
            chance.between(4, 15)
        ),
    ];
    profile
        .sector
        .competitors
        .iter()
        .zip(acts)
        .map(|(name, text)| Competitor { name: (*name).to_owned(), text })
        .collect()
}

fn ratings(company: &Company, it: &Readings, chance: &mut Chance) -> Vec<Rating> {
    let price = company.prices.last().map_or(10_000, |it| it.cents);
    let voices = [
        (
            "Fairweather & Sons",
            "buy",
            1_240,
            format!("Growth of {} is not in the price.", it.growth),
        ),
        (
            "Dunmore Research",
            "hold",
            1_010,
            format!("A gross margin of {} needs to be shown once more.", it.margin),
        ),
        (
            "Greyfriars Capital",
            "sell",
            780,
            format!(
                "Working capital eats the growth: receivables {}, inventory {}.",
                it.receivables_growth, it.inventory_growth
            ),
        ),
    ];
    voices
        .into_iter()
        .map(|(house, advice, permille, text)| Rating {
            house: house.to_owned(),
            advice: advice.to_owned(),
            target_cents: price * (permille + chance.between(-30, 30)) / 1000,
            text,
        })
        .collect()
}

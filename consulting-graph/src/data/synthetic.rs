//! Generates a fictional company from a ticker.
//!
//! The accounts are consistent: the income statement determines the cash flow, the cash flow determines the balance
//! sheet, and all totals agree to the dollar. Good and bad news contradict each other on purpose, so that there is
//! something to debate. The result depends only on the ticker and the date, and must not change between versions of
//! this program.

mod books;
mod news;
mod profile;

use chrono::{Datelike, Days, Months, NaiveDate};

use self::{books::MILLION, profile::Profile};
use super::{
    company::{Company, Note, Price, SectorRatio, Source, Split},
    item::Item,
    number,
    origin::Origin,
    ratio, ratio_table,
    rng::SeededRng,
    statement::{Period, Statement},
    ticker::Ticker,
};

/// Generates the company for a ticker, with the data that would have been published by `as_of`.
pub(crate) fn company(ticker: &Ticker, as_of: NaiveDate) -> Company {
    let mut rng = SeededRng::from_text(ticker.as_str());
    let profile = Profile::generate(&mut rng);
    let periods = periods(as_of);
    let quarters = books::generate(&profile, &periods, &mut rng);

    let name = format!("Synthetic {} Company", profile.sector.name);
    let mut company = Company::new(ticker.clone(), name, Source::Synthetic, as_of);
    company.sector = Some(profile.sector.name.to_owned());
    company.segments = split(&quarters, profile.sector.segments, &profile.segment_weights);
    company.geography = split(&quarters, &profile::REGIONS, &profile.region_weights);
    company.annuals = annuals(&quarters);
    company.quarters = quarters;
    company.prices = prices(&company, &mut rng);
    company.sector_ratios = sector_ratios(&company, &mut rng);
    company.metrics = metrics(&mut rng);
    company.guidance = guidance(&company, &mut rng);
    company.events = events(&company, &profile, &mut rng);
    company.news = Some(news::generate(&company, &profile, &mut rng));
    company
}

/// Returns the quarters of the last three full years and all later quarters, excluding quarters that had not been
/// published by `as_of`. Assumes that the results of a quarter are published 30 days after the quarter ends.
fn periods(as_of: NaiveDate) -> Vec<(Period, NaiveDate)> {
    let known = as_of.checked_sub_days(Days::new(30)).unwrap_or(as_of);
    let first = known.year().saturating_sub(4);
    let all = (0..5_i32)
        .flat_map(|year| (1..=4).map(move |quarter| (first.saturating_add(year), quarter)));
    let mut ended: Vec<(Period, NaiveDate)> = all
        .filter_map(|(year, quarter)| {
            Some((Period::quarter(year, quarter)?, quarter_end(year, quarter)?))
        })
        .filter(|(_, end)| *end <= known)
        .collect();
    // Keep three full years and the quarters after them.
    let newest_full = ended.iter().rev().find(|(it, _)| it.quarter.is_some_and(|it| it.get() == 4));
    if let Some(from) = newest_full.map(|(it, _)| it.year.saturating_sub(2)) {
        ended.retain(|(it, _)| it.year >= from);
    }
    ended
}

fn quarter_end(year: i32, quarter: u8) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(year, u32::from(quarter) * 3, 1).and_then(month_end)
}

fn month_end(date: NaiveDate) -> Option<NaiveDate> {
    date.with_day(1)?.checked_add_months(Months::new(1))?.pred_opt()
}

/// Builds the annual statements for all full years.
fn annuals(quarters: &[Statement]) -> Vec<Statement> {
    let years = quarters.chunk_by(|a, b| a.period.year == b.period.year);
    years.filter(|it| it.len() == 4).filter_map(books::annual).collect()
}

/// Splits each quarter's revenue into one part per name. Each weight is a pair: the weight in the first quarter, and
/// its change from quarter to quarter. The last part absorbs the rounding error.
fn split(quarters: &[Statement], names: &[&str], weights: &[(i64, i64)]) -> Vec<Split> {
    let parts_of = |(idx, quarter): (usize, &Statement)| {
        let age = i64::try_from(idx).unwrap_or(0);
        let now: Vec<i64> =
            weights.iter().map(|(start, drift)| (start + drift * age).max(20)).collect();
        let sum: i64 = now.iter().sum();
        let revenue = quarter.get(Item::Revenue).unwrap_or(0) / MILLION;
        let mut left = revenue;
        let mut parts: Vec<(String, i64)> = Vec::new();
        for (idx, (name, weight)) in names.iter().zip(&now).enumerate() {
            let part = if idx + 1 == names.len() { left } else { revenue * weight / sum.max(1) };
            left -= part;
            parts.push(((*name).to_owned(), part * MILLION));
        }
        Split { period: quarter.period, parts }
    };
    quarters.iter().enumerate().map(parts_of).collect()
}

fn prices(company: &Company, rng: &mut SeededRng) -> Vec<Price> {
    let newest = company.quarters.last();
    let sales = newest.and_then(|it| it.get(Item::Revenue)).unwrap_or(0);
    let shares = newest.and_then(|it| it.get(Item::DilutedShares)).unwrap_or(1).max(1);
    // In tenths: the market capitalisation is two to nine times the annual sales.
    let multiple = rng.between(20, 90);
    let mut cents = (sales.saturating_mul(4) / shares).max(1) * multiple * 10;
    let mut prices = Vec::new();
    for months in (0..8).rev() {
        let month =
            company.as_of.checked_sub_months(Months::new(months + 1)).unwrap_or(company.as_of);
        cents = (cents * (1000 + rng.between(-90, 90)) / 1000).max(100);
        prices.push(Price { date: month_end(month).unwrap_or(month), cents });
    }
    prices
}

/// Draws random sector ratios close to the company's own ratios, so that the company looks good in some ratios and bad
/// in others.
fn sector_ratios(company: &Company, rng: &mut SeededRng) -> Vec<SectorRatio> {
    let usual = |it: ratio_table::Ratio| {
        let value = match it.value {
            ratio_table::Value::Fraction(value) | ratio_table::Value::Multiple(value) => value,
            ratio_table::Value::Dollars(_) | ratio_table::Value::Cents(_) => return None,
        };
        let value = value * (rng.between(700, 1300) as f64) / 1000.0;
        // Round to the precision that is displayed, so that quotations match the stored value.
        Some(SectorRatio { name: it.name.to_owned(), value: (value * 1000.0).round() / 1000.0 })
    };
    ratio_table::table(company).into_iter().filter_map(usual).collect()
}

fn metrics(rng: &mut SeededRng) -> Vec<Note> {
    let retention = rng.between(96, 124);
    let churn = rng.between(2, 11);
    let staff = rng.between(12, 480) * 100;
    let top = rng.between(14, 46);
    [
        format!("Net revenue retention is {retention}%."),
        format!("Customer churn was {churn}% over the last year."),
        format!("The company employs {} people.", number::grouped(staff.unsigned_abs())),
        format!("The ten largest customers account for {top}% of revenue."),
    ]
    .map(undated)
    .into()
}

fn guidance(company: &Company, rng: &mut SeededRng) -> Vec<Note> {
    let newest = company.quarters.last();
    let revenue = newest.and_then(|it| it.get(Item::Revenue)).unwrap_or(0);
    let low = revenue / 1000 * rng.between(985, 1020) / MILLION * MILLION;
    let low = if low == 0 { revenue } else { low };
    let high = low + (low / 25).max(MILLION) / MILLION * MILLION;
    let margin = newest.and_then(ratio::operating_margin).unwrap_or(0.0)
        + rng.between(-15, 25) as f64 / 1000.0;
    [
        format!(
            "Management expects revenue between {} and {} for the next quarter.",
            number::dollars(low),
            number::dollars(high)
        ),
        format!(
            "Management targets an operating margin of {} for the full year.",
            number::percent(margin)
        ),
        "Management describes demand as healthy and cites supply and hiring as the limits to growth.".to_owned(),
    ]
    .map(undated)
    .into()
}

fn events(company: &Company, profile: &Profile, rng: &mut SeededRng) -> Vec<Note> {
    let buyback = company.annuals.last().and_then(|it| it.get(Item::Buybacks)).unwrap_or(0);
    let segment = profile.sector.segments.last().copied().unwrap_or_default();
    let texts = [
        format!(
            "The board renewed the share repurchase programme; repurchases in the last year totalled {}.",
            number::dollars(buyback)
        ),
        format!(
            "A new head of {segment} was appointed after the position had been vacant for two quarters."
        ),
        format!("A plant expansion was delayed by {} months.", rng.between(3, 9)),
        "The long-serving chief financial officer will step down at the end of the year."
            .to_owned(),
    ];
    let dated = |(idx, text): (i64, String)| {
        let days = 14 + idx * 23 + rng.between(0, 9);
        Note {
            date: company.as_of.checked_sub_days(Days::new(days.unsigned_abs())),
            text,
            origin: Origin::Synthetic,
        }
    };
    (0..).zip(texts).map(dated).collect()
}

fn undated(text: String) -> Note {
    Note { date: None, text, origin: Origin::Synthetic }
}

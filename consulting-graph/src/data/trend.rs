//! Trends in a company's own figures. They replace news if the source contains none.

use super::{
    company::Company,
    item::{Item, Unit},
    number,
    ratio::{
        cash_conversion, earnings_per_share, free_cash_flow, gross_margin, net_debt, net_margin,
        operating_margin, payout, research_intensity, year_over_year,
    },
    ratio_table::Value,
    statement::{Period, Statement},
};

/// Maximum number of quarters and of years in a trend.
const MAX_PERIODS: usize = 8;

/// Development of one figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trend {
    pub(crate) name: &'static str,
    pub(crate) topic: Topic,
    /// The figure in each period, oldest first.
    pub(crate) points: Vec<(Period, TrendValue)>,
    preference: Preference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Growth,
    Margin,
    Liquidity,
    Leverage,
    CapitalReturn,
    Efficiency,
}

/// Value of a figure in one period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TrendValue {
    Ratio(Value),
    /// A number of shares.
    Shares(i64),
}

/// Whether a change of a figure is favourable for the company.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preference {
    Higher,
    Lower,
    Neither,
}

/// The latest value of a figure compared with the value one year before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct YearlyChange {
    pub(crate) now: (Period, TrendValue),
    pub(crate) before: (Period, TrendValue),
    /// Number of consecutive periods, up to the latest one, whose year-over-year changes have the same direction.
    pub(crate) periods: usize,
    /// Whether the change is favourable for the company. `None` if it is neither favourable nor unfavourable.
    pub(crate) is_good: Option<bool>,
}

/// Returns the trends of the latest quarters.
pub(crate) fn quarterly(company: &Company) -> Vec<Trend> {
    trends(company, &company.quarters, QUARTERLY)
}

/// Returns the trends of the latest fiscal years. For a company without quarterly statements, they include the figures
/// that [`quarterly`] would show.
pub(crate) fn annual(company: &Company) -> Vec<Trend> {
    let ratios = if company.quarters.is_empty() { QUARTERLY } else { &[] };
    let mut all = trends(company, &company.annuals, ratios);
    all.extend(trends(company, &company.annuals, ANNUAL));
    all
}

fn trends(company: &Company, statements: &[Statement], lines: &[Line]) -> Vec<Trend> {
    let newest = &statements[statements.len().saturating_sub(MAX_PERIODS)..];
    let trend = |line: &Line| {
        let point = |it: &Statement| Some((it.period, (line.value)(company, it)?));
        let Line { name, topic, preference, .. } = *line;
        let points: Vec<_> = newest.iter().filter_map(point).collect();
        (points.len() >= 2).then_some(Trend { name, topic, points, preference })
    };
    lines.iter().filter_map(trend).collect()
}

impl Trend {
    /// Compares the latest value with that of the year before. Returns `None` if the latter is unknown, or if the two
    /// are displayed as the same text.
    pub(crate) fn yearly_change(&self) -> Option<YearlyChange> {
        let change = |idx: usize| {
            let now = self.points[idx];
            let before = self.points.iter().find(|it| it.0 == now.0.year_before())?;
            let differs = now.1.to_string() != before.1.to_string();
            differs.then(|| (now, *before, now.1.amount() > before.1.amount()))
        };
        let latest = self.points.len().checked_sub(1)?;
        let (now, before, rose) = change(latest)?;
        let same = |idx: &usize| change(*idx).is_some_and(|it| it.2 == rose);
        let is_good = match self.preference {
            Preference::Higher => Some(rose),
            Preference::Lower => Some(!rose),
            Preference::Neither => None,
        };
        Some(YearlyChange {
            now,
            before,
            periods: (0..=latest).rev().take_while(same).count(),
            is_good,
        })
    }

    /// Describes the yearly change in one sentence with a full stop.
    pub(crate) fn sentence(&self) -> Option<String> {
        let YearlyChange { now, before, periods, .. } = self.yearly_change()?;
        let rose = now.1.amount() > before.1.amount();
        let (moved, than) = if rose { ("up", "higher") } else { ("down", "lower") };
        let unit = if now.0.quarter.is_some() { "quarters" } else { "years" };
        let run = match periods {
            0 | 1 => String::new(),
            n => format!("; {than} than a year before in each of the last {n} {unit}"),
        };
        let ((period, value), (then, was)) = (now, before);
        let is_plural =
            ["Accounts receivable", "Diluted shares", "Earnings per share"].contains(&self.name);
        let (name, verb) = (spell_out(self.name), if is_plural { "were" } else { "was" });
        Some(format!("{name} {verb} {value} in {period}, {moved} from {was} in {then}{run}."))
    }
}

/// Returns the name of a figure as it is written in sentences, without abbreviations.
pub(crate) fn spell_out(name: &str) -> String {
    name.replace("(YoY)", "over the year before")
}

impl TrendValue {
    fn amount(self) -> f64 {
        match self {
            Self::Ratio(Value::Fraction(it) | Value::Multiple(it)) => it,
            Self::Ratio(Value::Dollars(it) | Value::Cents(it)) | Self::Shares(it) => it as f64,
        }
    }
}

impl std::fmt::Display for TrendValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ratio(it) => it.fmt(f),
            Self::Shares(it) => f.write_str(&number::shares(*it)),
        }
    }
}

struct Line {
    name: &'static str,
    topic: Topic,
    preference: Preference,
    value: fn(&Company, &Statement) -> Option<TrendValue>,
}

fn fraction(value: Option<f64>) -> Option<TrendValue> {
    value.map(|it| TrendValue::Ratio(Value::Fraction(it)))
}

fn dollars(value: Option<i64>) -> Option<TrendValue> {
    value.map(|it| TrendValue::Ratio(Value::Dollars(it)))
}

/// Returns the value of a line item that is stated in dollars.
fn item(statement: &Statement, item: Item) -> Option<TrendValue> {
    debug_assert_ne!(item.unit(), Unit::AverageShares);
    dollars(statement.get(item))
}

macro_rules! lines {
    ($($name:literal, $topic:ident, $preference:ident, $value:expr;)+) => {
        &[$(Line {
            name: $name,
            topic: Topic::$topic,
            preference: Preference::$preference,
            value: $value,
        }),+]
    };
}

const QUARTERLY: &[Line] = lines! {
    "Revenue growth (YoY)", Growth, Higher,
        |company, it| fraction(year_over_year(company, it, Item::Revenue));
    "Gross margin", Margin, Higher, |_, it| fraction(gross_margin(it));
    "Operating margin", Margin, Higher, |_, it| fraction(operating_margin(it));
    "Net margin", Margin, Higher, |_, it| fraction(net_margin(it));
    "Research intensity", Efficiency, Neither, |_, it| fraction(research_intensity(it));
};

const ANNUAL: &[Line] = lines! {
    "Revenue", Growth, Higher, |_, it| item(it, Item::Revenue);
    "Free cash flow", Liquidity, Higher, |_, it| dollars(free_cash_flow(it));
    "Net income", Growth, Higher, |_, it| item(it, Item::NetIncome);
    "Capital expenditure", Efficiency, Neither, |_, it| item(it, Item::CapitalExpenditure);
    "Shareholder payout", CapitalReturn, Neither, |_, it| dollars(payout(it));
    "Net debt", Leverage, Lower, |company, it| dollars(net_debt(company, it));
    "Accounts receivable", Efficiency, Lower, |_, it| item(it, Item::Receivables);
    "Inventory", Efficiency, Lower, |_, it| item(it, Item::Inventory);
    "Cash conversion", Efficiency, Higher, |_, it| fraction(cash_conversion(it));
    "Earnings per share", CapitalReturn, Higher,
        |_, it| earnings_per_share(it).map(|it| TrendValue::Ratio(Value::Cents(it)));
    "Diluted shares", CapitalReturn, Lower,
        |_, it| it.get(Item::DilutedShares).map(TrendValue::Shares);
    "Share-based compensation", CapitalReturn, Neither,
        |_, it| item(it, Item::ShareBasedCompensation);
    "Shareholders' equity", Leverage, Higher, |_, it| item(it, Item::Equity);
};

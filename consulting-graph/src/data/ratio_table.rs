//! The table of ratios.

use std::fmt;

use super::{
    company::Company,
    item::Item,
    number,
    ratio::{
        cash_conversion, current_ratio, debt_to_equity, earnings_per_share, free_cash_flow,
        free_cash_flow_margin, gross_margin, net_debt, net_margin, operating_margin, payout,
        research_intensity, return_on_equity, year_over_year,
    },
    statement::{Period, Statement},
};

/// Returns all ratios that can be computed from the company's latest quarter or latest fiscal year.
pub(crate) fn table(company: &Company) -> Vec<Ratio> {
    LINES.iter().filter_map(|line| line.compute(company)).collect()
}

/// One row of the ratio table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ratio {
    pub name: &'static str,
    /// The formula.
    pub definition: &'static str,
    pub period: Period,
    pub value: Value,
    /// The typical value in the sector, if known.
    pub sector: Option<Value>,
}

/// A computed number with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// A fraction, shown as a percentage: 0.25 is shown as 25%.
    Fraction(f64),
    /// An amount in whole dollars.
    Dollars(i64),
    /// A multiple, shown as in `2.4x`.
    Multiple(f64),
    Cents(i64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Self::Fraction(it) => number::percent(it),
            Self::Dollars(it) => number::dollars(it),
            Self::Multiple(it) => number::multiple(it),
            Self::Cents(it) => number::cents(it),
        })
    }
}

struct Line {
    name: &'static str,
    definition: &'static str,
    basis: Basis,
    value: fn(&Company, &Statement) -> Option<Value>,
}

/// The statement that a ratio is computed from.
enum Basis {
    /// The latest quarter, or the latest year if the quarter lacks an input.
    LatestPeriod,
    /// The latest year, for ratios that are not meaningful for a quarter.
    LatestYear,
}

impl Line {
    fn compute(&self, company: &Company) -> Option<Ratio> {
        let quarter = match self.basis {
            Basis::LatestPeriod => company.quarters.last(),
            Basis::LatestYear => None,
        };
        let statements = quarter.into_iter().chain(company.annuals.last());
        let (period, value) =
            statements.filter_map(|it| Some((it.period, (self.value)(company, it)?))).next()?;
        let Self { name, definition, .. } = *self;
        let usual = company.sector_ratios.iter().find(|it| it.name == name);
        let sector = usual.map(|it| match value {
            Value::Multiple(_) => Value::Multiple(it.value),
            Value::Fraction(_) | Value::Dollars(_) | Value::Cents(_) => Value::Fraction(it.value),
        });
        Some(Ratio { name, definition, period, value, sector })
    }
}

macro_rules! lines {
    ($($name:literal, $definition:literal, $basis:ident, $value:expr;)+) => {
        &[$(Line {
            name: $name,
            definition: $definition,
            basis: Basis::$basis,
            value: $value,
        }),+]
    };
}

const LINES: &[Line] = lines! {
    "Revenue growth (YoY)", "revenue / revenue a year before - 1", LatestPeriod,
        |company, it| year_over_year(company, it, Item::Revenue).map(Value::Fraction);
    "Gross margin", "gross profit / revenue", LatestPeriod,
        |_, it| gross_margin(it).map(Value::Fraction);
    "Operating margin", "operating income / revenue", LatestPeriod,
        |_, it| operating_margin(it).map(Value::Fraction);
    "Net margin", "net income / revenue", LatestPeriod,
        |_, it| net_margin(it).map(Value::Fraction);
    "Research intensity", "research and development / revenue", LatestPeriod,
        |_, it| research_intensity(it).map(Value::Fraction);
    "Free cash flow", "operating cash flow - capital expenditure", LatestPeriod,
        |_, it| free_cash_flow(it).map(Value::Dollars);
    "Free cash flow margin", "free cash flow / revenue", LatestYear,
        |_, it| free_cash_flow_margin(it).map(Value::Fraction);
    "Cash conversion", "free cash flow / net income", LatestYear,
        |_, it| cash_conversion(it).map(Value::Fraction);
    "Net debt", "long-term debt - cash - marketable securities", LatestPeriod,
        |company, it| net_debt(company, it).map(Value::Dollars);
    "Current ratio", "current assets / current liabilities", LatestPeriod,
        |_, it| current_ratio(it).map(Value::Multiple);
    "Debt to equity", "long-term debt / equity", LatestPeriod,
        |_, it| debt_to_equity(it).map(Value::Multiple);
    "Return on equity", "net income / equity at year end", LatestYear,
        |_, it| return_on_equity(it).map(Value::Fraction);
    "Shareholder payout", "share repurchases + dividends", LatestYear,
        |_, it| payout(it).map(Value::Dollars);
    "Earnings per share", "net income / diluted shares", LatestPeriod,
        |_, it| earnings_per_share(it).map(Value::Cents);
};

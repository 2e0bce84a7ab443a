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

const LINES: &[Line] = &[
    Line {
        name: "Revenue growth (YoY)",
        definition: "revenue / revenue a year before - 1",
        basis: Basis::LatestPeriod,
        value: |company, it| year_over_year(company, it, Item::Revenue).map(Value::Fraction),
    },
    Line {
        name: "Gross margin",
        definition: "gross profit / revenue",
        basis: Basis::LatestPeriod,
        value: |_, it| gross_margin(it).map(Value::Fraction),
    },
    Line {
        name: "Operating margin",
        definition: "operating income / revenue",
        basis: Basis::LatestPeriod,
        value: |_, it| operating_margin(it).map(Value::Fraction),
    },
    Line {
        name: "Net margin",
        definition: "net income / revenue",
        basis: Basis::LatestPeriod,
        value: |_, it| net_margin(it).map(Value::Fraction),
    },
    Line {
        name: "Research intensity",
        definition: "research and development / revenue",
        basis: Basis::LatestPeriod,
        value: |_, it| research_intensity(it).map(Value::Fraction),
    },
    Line {
        name: "Free cash flow",
        definition: "operating cash flow - capital expenditure",
        basis: Basis::LatestPeriod,
        value: |_, it| free_cash_flow(it).map(Value::Dollars),
    },
    Line {
        name: "Free cash flow margin",
        definition: "free cash flow / revenue",
        basis: Basis::LatestYear,
        value: |_, it| free_cash_flow_margin(it).map(Value::Fraction),
    },
    Line {
        name: "Cash conversion",
        definition: "free cash flow / net income",
        basis: Basis::LatestYear,
        value: |_, it| cash_conversion(it).map(Value::Fraction),
    },
    Line {
        name: "Net debt",
        definition: "long-term debt - cash - marketable securities",
        basis: Basis::LatestPeriod,
        value: |company, it| net_debt(company, it).map(Value::Dollars),
    },
    Line {
        name: "Current ratio",
        definition: "current assets / current liabilities",
        basis: Basis::LatestPeriod,
        value: |_, it| current_ratio(it).map(Value::Multiple),
    },
    Line {
        name: "Debt to equity",
        definition: "long-term debt / equity",
        basis: Basis::LatestPeriod,
        value: |_, it| debt_to_equity(it).map(Value::Multiple),
    },
    Line {
        name: "Return on equity",
        definition: "net income / equity at year end",
        basis: Basis::LatestYear,
        value: |_, it| return_on_equity(it).map(Value::Fraction),
    },
    Line {
        name: "Shareholder payout",
        definition: "share repurchases + dividends",
        basis: Basis::LatestYear,
        value: |_, it| payout(it).map(Value::Dollars),
    },
    Line {
        name: "Earnings per share",
        definition: "net income / diluted shares",
        basis: Basis::LatestPeriod,
        value: |_, it| earnings_per_share(it).map(Value::Cents),
    },
];

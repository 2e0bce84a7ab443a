//! The table of ratios.

use std::fmt;

use super::{
    super::{Company, Item, Period, Statement, number},
    cash_conversion, current_ratio, debt_to_equity, earnings_per_share, free_cash_flow,
    free_cash_flow_margin, gross_margin, net_debt, net_margin, operating_margin, payout,
    research_intensity, return_on_equity, year_over_year,
};

/// All ratios that the company's statements allow, each of the newest period that has it.
pub fn table(company: &Company) -> Vec<Ratio> {
    LINES.iter().filter_map(|line| line.of(company)).collect()
}

/// A line of the table of ratios.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// What it is called.
    pub name: &'static str,
    /// How it is computed.
    pub definition: &'static str,
    /// The period it is of.
    pub period: Period,
    /// Its value in that period.
    pub value: Value,
    /// What is usual in the sector.
    pub sector: Option<Value>,
}

/// A computed number with what it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A share of one.
    Share(f64),
    /// Dollars.
    Dollars(i64),
    /// A multiple.
    Times(f64),
    /// Cents.
    Cents(i64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Self::Share(it) => number::percent(it),
            Self::Dollars(it) => number::dollars(it),
            Self::Times(it) => number::times(it),
            Self::Cents(it) => number::cents(it),
        })
    }
}

struct Line {
    name: &'static str,
    definition: &'static str,
    over: Over,
    value: fn(&Company, &Statement) -> Option<Value>,
}

/// Which statements a ratio is taken from.
enum Over {
    /// The newest quarter, or the newest year where the quarter does not have it.
    Newest,
    /// The newest year: a quarter would say little.
    Year,
}

impl Line {
    fn of(&self, company: &Company) -> Option<Ratio> {
        let quarter = match self.over {
            Over::Newest => company.quarters.last(),
            Over::Year => None,
        };
        let statements = quarter.into_iter().chain(company.annuals.last());
        let (period, value) =
            statements.filter_map(|it| Some((it.period, (self.value)(company, it)?))).next()?;
        let Self { name, definition, .. } = *self;
        let usual = company.sector_ratios.iter().find(|it| it.name == name);
        let sector = usual.map(|it| match value {
            Value::Times(_) => Value::Times(it.value),
            Value::Share(_) | Value::Dollars(_) | Value::Cents(_) => Value::Share(it.value),
        });
        Some(Ratio { name, definition, period, value, sector })
    }
}

const LINES: &[Line] = &[
    Line {
        name: "Revenue growth (YoY)",
        definition: "revenue / revenue a year before - 1",
        over: Over::Newest,
        value: |company, it| year_over_year(company, it, Item::Revenue).map(Value::Share),
    },
    Line {
        name: "Gross margin",
        definition: "gross profit / revenue",
        over: Over::Newest,
        value: |_, it| gross_margin(it).map(Value::Share),
    },
    Line {
        name: "Operating margin",
        definition: "operating income / revenue",
        over: Over::Newest,
        value: |_, it| operating_margin(it).map(Value::Share),
    },
    Line {
        name: "Net margin",
        definition: "net income / revenue",
        over: Over::Newest,
        value: |_, it| net_margin(it).map(Value::Share),
    },
    Line {
        name: "Research intensity",
        definition: "research and development / revenue",
        over: Over::Newest,
        value: |_, it| research_intensity(it).map(Value::Share),
    },
    Line {
        name: "Free cash flow",
        definition: "operating cash flow - capital expenditure",
        over: Over::Newest,
        value: |_, it| free_cash_flow(it).map(Value::Dollars),
    },
    Line {
        name: "Free cash flow margin",
        definition: "free cash flow / revenue",
        over: Over::Year,
        value: |_, it| free_cash_flow_margin(it).map(Value::Share),
    },
    Line {
        name: "Cash conversion",
        definition: "free cash flow / net income",
        over: Over::Year,
        value: |_, it| cash_conversion(it).map(Value::Share),
    },
    Line {
        name: "Net debt",
        definition: "long-term debt - cash - marketable securities",
        over: Over::Newest,
        value: |company, it| net_debt(company, it).map(Value::Dollars),
    },
    Line {
        name: "Current ratio",
        definition: "current assets / current liabilities",
        over: Over::Newest,
        value: |_, it| current_ratio(it).map(Value::Times),
    },
    Line {
        name: "Debt to equity",
        definition: "long-term debt / equity",
        over: Over::Newest,
        value: |_, it| debt_to_equity(it).map(Value::Times),
    },
    Line {
        name: "Return on equity",
        definition: "net income / equity at year end",
        over: Over::Year,
        value: |_, it| return_on_equity(it).map(Value::Share),
    },
    Line {
        name: "Shareholder payout",
        definition: "share repurchases + dividends",
        over: Over::Year,
        value: |_, it| payout(it).map(Value::Dollars),
    },
    Line {
        name: "Earnings per share",
        definition: "net income / diluted shares",
        over: Over::Newest,
        value: |_, it| earnings_per_share(it).map(Value::Cents),
    },
];

//! The line items of financial statements, each under a single name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::number;

macro_rules! items {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $unit:ident;)+) => {
        /// A line item of an income statement, a balance sheet or a cash flow statement.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Item {
            $($(#[$doc])* $name,)+
        }

        impl Item {
            /// All line items, in the order in which statements list them.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the label of the line item in tables.
            pub fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)+ }
            }

            /// Returns the unit of the line item's values.
            pub fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)+ }
            }
        }
    };
}

items! {
    /// Sales in the period.
    Revenue = "Revenue", DollarsInPeriod;
    /// Cost of the goods and services sold.
    CostOfRevenue = "Cost of revenue", DollarsInPeriod;
    /// Revenue minus cost of revenue.
    GrossProfit = "Gross profit", DollarsInPeriod;
    /// Spending on research and development.
    ResearchAndDevelopment = "Research and development", DollarsInPeriod;
    /// Spending on sales and administration.
    SellingAndAdministration = "Selling, general and administrative", DollarsInPeriod;
    /// Profit from operations.
    OperatingIncome = "Operating income", DollarsInPeriod;
    /// Net interest and other income; negative for a net expense.
    OtherIncome = "Interest and other, net", DollarsInPeriod;
    /// Income before tax.
    PretaxIncome = "Pretax income", DollarsInPeriod;
    IncomeTax = "Income tax", DollarsInPeriod;
    /// Profit after tax.
    NetIncome = "Net income", DollarsInPeriod;
    /// Average number of diluted shares in the period.
    DilutedShares = "Diluted shares", AverageShares;
    Depreciation = "Depreciation and amortisation", DollarsInPeriod;
    /// Compensation paid in shares.
    ShareBasedCompensation = "Share-based compensation", DollarsInPeriod;
    OperatingCashFlow = "Operating cash flow", DollarsInPeriod;
    /// Cash spent on property, plant and equipment; a positive number.
    CapitalExpenditure = "Capital expenditure", DollarsInPeriod;
    /// Cash spent on the company's own shares; a positive number.
    Buybacks = "Share repurchases", DollarsInPeriod;
    /// Cash paid as dividends; a positive number.
    Dividends = "Dividends paid", DollarsInPeriod;
    /// Debt issued minus debt repaid.
    DebtRaised = "Debt raised, net", DollarsInPeriod;
    /// Increase in cash over the period.
    ChangeInCash = "Change in cash", DollarsInPeriod;
    Cash = "Cash and equivalents", DollarsAtEnd;
    /// Marketable securities in current assets.
    MarketableSecurities = "Marketable securities", DollarsAtEnd;
    /// Amounts owed by customers.
    Receivables = "Accounts receivable", DollarsAtEnd;
    /// Goods held in stock.
    Inventory = "Inventory", DollarsAtEnd;
    /// Assets expected to turn into cash within a year.
    CurrentAssets = "Current assets", DollarsAtEnd;
    /// Property, plant and equipment, net of depreciation.
    FixedAssets = "Property, plant and equipment", DollarsAtEnd;
    Goodwill = "Goodwill", DollarsAtEnd;
    Assets = "Total assets", DollarsAtEnd;
    /// Amounts owed to suppliers.
    Payables = "Accounts payable", DollarsAtEnd;
    /// Liabilities due within a year.
    CurrentLiabilities = "Current liabilities", DollarsAtEnd;
    /// Long-term debt, or only its non-current part for companies that report no total.
    Debt = "Long-term debt", DollarsAtEnd;
    Liabilities = "Total liabilities", DollarsAtEnd;
    /// Assets minus liabilities.
    Equity = "Shareholders' equity", DollarsAtEnd;
}

/// Unit of an [`Item`]'s values, which are always whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Dollars over a period. The values of four quarters add up to the value of the year.
    DollarsInPeriod,
    /// Dollars at the end of a period.
    DollarsAtEnd,
    /// Average number of shares over a period. The values of the quarters do not add up to the value of the year.
    AverageShares,
}

impl Item {
    /// Finds a line item by its name or a common abbreviation, ignoring case, spaces and punctuation. Accepts for
    /// example `gross_profit`, `Gross profit` and `capex`.
    pub fn find(name: &str) -> Option<Self> {
        let wanted = normalize(name);
        let alias = match wanted.as_str() {
            "sales" | "revenues" | "netsales" => Some(Self::Revenue),
            "capex" => Some(Self::CapitalExpenditure),
            "rd" | "rnd" => Some(Self::ResearchAndDevelopment),
            "sga" => Some(Self::SellingAndAdministration),
            _ => None,
        };
        alias.or_else(|| {
            let same = |it: &&Self| {
                normalize(it.label()) == wanted || normalize(&format!("{it:?}")) == wanted
            };
            Self::ALL.iter().find(same).copied()
        })
    }

    /// Formats a value of the line item in its unit.
    pub(crate) fn format(self, value: i64) -> String {
        match self.unit() {
            Unit::AverageShares => number::shares(value),
            Unit::DollarsInPeriod | Unit::DollarsAtEnd => number::dollars(value),
        }
    }

    /// Returns whether the label is a noun in the plural.
    pub(super) fn is_plural(self) -> bool {
        let is_other = matches!(self, Self::Receivables | Self::Payables | Self::Dividends);
        is_other || self.label().ends_with('s')
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

fn normalize(name: &str) -> String {
    name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

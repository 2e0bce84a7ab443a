//! The lines of the three statements that are kept, under one name each.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! items {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $unit:ident;)+) => {
        /// A line of an income statement, a balance sheet or a cash flow statement.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Item {
            $($(#[$doc])* $name,)+
        }

        impl Item {
            /// All lines, in the order of the statements.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// What a table calls the line.
            pub fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)+ }
            }

            /// What its value counts.
            pub fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)+ }
            }
        }
    };
}

items! {
    /// Sales of the period.
    Revenue = "Revenue", DollarsInPeriod;
    /// What the sold goods and services cost.
    CostOfRevenue = "Cost of revenue", DollarsInPeriod;
    /// Revenue less its cost.
    GrossProfit = "Gross profit", DollarsInPeriod;
    /// Spending on research and development.
    ResearchAndDevelopment = "Research and development", DollarsInPeriod;
    /// Spending on selling and administration.
    SellingAndAdministration = "Selling, general and administrative", DollarsInPeriod;
    /// What operations earned.
    OperatingIncome = "Operating income", DollarsInPeriod;
    /// Interest and other income, net; negative when it is a cost.
    OtherIncome = "Interest and other, net", DollarsInPeriod;
    /// Income before tax.
    PretaxIncome = "Pretax income", DollarsInPeriod;
    /// Tax on income.
    IncomeTax = "Income tax", DollarsInPeriod;
    /// What is left for the shareholders.
    NetIncome = "Net income", DollarsInPeriod;
    /// Average diluted shares of the period.
    DilutedShares = "Diluted shares", AverageShares;
    /// Depreciation and amortisation.
    Depreciation = "Depreciation and amortisation", DollarsInPeriod;
    /// Pay in shares.
    ShareBasedCompensation = "Share-based compensation", DollarsInPeriod;
    /// Cash from operations.
    OperatingCashFlow = "Operating cash flow", DollarsInPeriod;
    /// Cash spent on property, plant and equipment; a positive number.
    CapitalExpenditure = "Capital expenditure", DollarsInPeriod;
    /// Cash spent on own shares; a positive number.
    Buybacks = "Share repurchases", DollarsInPeriod;
    /// Cash paid as dividends; a positive number.
    Dividends = "Dividends paid", DollarsInPeriod;
    /// Debt raised less debt repaid.
    DebtRaised = "Debt raised, net", DollarsInPeriod;
    /// By how much cash grew.
    ChangeInCash = "Change in cash", DollarsInPeriod;
    /// Cash and what is as good as cash.
    Cash = "Cash and equivalents", DollarsAtEnd;
    /// Marketable securities among the current assets.
    MarketableSecurities = "Marketable securities", DollarsAtEnd;
    /// What customers owe.
    Receivables = "Accounts receivable", DollarsAtEnd;
    /// Goods in stock.
    Inventory = "Inventory", DollarsAtEnd;
    /// Assets that turn into cash within a year.
    CurrentAssets = "Current assets", DollarsAtEnd;
    /// Property, plant and equipment after depreciation.
    FixedAssets = "Property, plant and equipment", DollarsAtEnd;
    /// Goodwill.
    Goodwill = "Goodwill", DollarsAtEnd;
    /// All assets.
    Assets = "Total assets", DollarsAtEnd;
    /// What is owed to suppliers.
    Payables = "Accounts payable", DollarsAtEnd;
    /// What is due within a year.
    CurrentLiabilities = "Current liabilities", DollarsAtEnd;
    /// Long-term debt; of a filer who tags the part due after a year only, that part.
    Debt = "Long-term debt", DollarsAtEnd;
    /// All liabilities.
    Liabilities = "Total liabilities", DollarsAtEnd;
    /// What belongs to the shareholders.
    Equity = "Shareholders' equity", DollarsAtEnd;
}

/// What the value of an [`Item`] counts; always a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Dollars over a period: quarters add up to years.
    DollarsInPeriod,
    /// Dollars at the end of a period.
    DollarsAtEnd,
    /// Shares on average over a period: quarters do not add up.
    AverageShares,
}

impl Item {
    /// Finds a line by the name a person would give it: `gross_profit`, `Gross profit`, `gross-profit`.
    pub fn find(name: &str) -> Option<Self> {
        let wanted = letters(name);
        let alias = match wanted.as_str() {
            "sales" | "revenues" | "netsales" => Some(Self::Revenue),
            "capex" => Some(Self::CapitalExpenditure),
            "rd" | "rnd" => Some(Self::ResearchAndDevelopment),
            "sga" => Some(Self::SellingAndAdministration),
            _ => None,
        };
        alias.or_else(|| {
            let same =
                |it: &&Self| letters(it.label()) == wanted || letters(&format!("{it:?}")) == wanted;
            Self::ALL.iter().find(same).copied()
        })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

fn letters(name: &str) -> String {
    name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

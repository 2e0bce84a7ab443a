//! What is computed from the statements, each by one exact definition.
//!
//! Every function gives nothing when a number it needs is missing or the divisor is not positive: a margin of a
//! company without revenue is not zero, it is not known. Shares are shares of one: 0.25 is 25 percent.

mod table;

use super::{Company, Item, Statement};

pub use table::{Ratio, Value, table};

/// `a / b`, where `b` is positive.
fn over(a: Option<i64>, b: Option<i64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (b > 0).then(|| a as f64 / b as f64)
}

/// Gross margin: gross profit / revenue, where gross profit is revenue - cost of revenue if it is not stated.
pub fn gross_margin(statement: &Statement) -> Option<f64> {
    over(gross_profit(statement), statement.get(Item::Revenue))
}

/// Gross profit as stated, else revenue - cost of revenue.
pub fn gross_profit(statement: &Statement) -> Option<i64> {
    statement
        .get(Item::GrossProfit)
        .or_else(|| statement.get(Item::Revenue)?.checked_sub(statement.get(Item::CostOfRevenue)?))
}

/// Operating margin: operating income / revenue.
pub fn operating_margin(statement: &Statement) -> Option<f64> {
    over(statement.get(Item::OperatingIncome), statement.get(Item::Revenue))
}

/// Net margin: net income / revenue.
pub fn net_margin(statement: &Statement) -> Option<f64> {
    over(statement.get(Item::NetIncome), statement.get(Item::Revenue))
}

/// Research intensity: research and development / revenue.
pub fn research_intensity(statement: &Statement) -> Option<f64> {
    over(statement.get(Item::ResearchAndDevelopment), statement.get(Item::Revenue))
}

/// Free cash flow: operating cash flow - capital expenditure.
pub fn free_cash_flow(statement: &Statement) -> Option<i64> {
    statement.get(Item::OperatingCashFlow)?.checked_sub(statement.get(Item::CapitalExpenditure)?)
}

/// Free cash flow margin: free cash flow / revenue.
pub fn free_cash_flow_margin(statement: &Statement) -> Option<f64> {
    over(free_cash_flow(statement), statement.get(Item::Revenue))
}

/// Cash conversion: free cash flow / net income, where net income is positive.
pub fn cash_conversion(statement: &Statement) -> Option<f64> {
    over(free_cash_flow(statement), statement.get(Item::NetIncome))
}

/// Net debt: long-term debt - cash and equivalents - marketable securities.
///
/// Securities count as nothing for a company that never states any. One that states them in other periods has them
/// here too, under a name that is not read; then the net debt is not known, and a guess would be off by all of them.
pub fn net_debt(company: &Company, statement: &Statement) -> Option<i64> {
    let states = |it: &Statement| it.get(Item::MarketableSecurities).is_some();
    let securities = match statement.get(Item::MarketableSecurities) {
        Some(stated) => stated,
        None if company.annuals.iter().chain(&company.quarters).any(states) => return None,
        None => 0,
    };
    let liquid = statement.get(Item::Cash)?.checked_add(securities)?;
    statement.get(Item::Debt)?.checked_sub(liquid)
}

/// Current ratio: current assets / current liabilities.
pub fn current_ratio(statement: &Statement) -> Option<f64> {
    over(statement.get(Item::CurrentAssets), statement.get(Item::CurrentLiabilities))
}

/// Debt to equity: long-term debt / shareholders' equity.
pub fn debt_to_equity(statement: &Statement) -> Option<f64> {
    over(statement.get(Item::Debt), statement.get(Item::Equity))
}

/// Return on equity of a year: net income / shareholders' equity at its end.
pub fn return_on_equity(annual: &Statement) -> Option<f64> {
    over(annual.get(Item::NetIncome), annual.get(Item::Equity))
}

/// Shareholder payout: share repurchases + dividends; one that is not stated counts as nothing, since filers leave out
/// what they did not pay.
pub fn payout(statement: &Statement) -> Option<i64> {
    match (statement.get(Item::Buybacks), statement.get(Item::Dividends)) {
        (None, None) => None,
        (a, b) => a.unwrap_or(0).checked_add(b.unwrap_or(0)),
    }
}

/// Diluted earnings per share in cents: net income / diluted shares, to the nearest cent.
pub fn earnings_per_share(statement: &Statement) -> Option<i64> {
    let shares = statement.get(Item::DilutedShares)?;
    let income = statement.get(Item::NetIncome)?;
    (shares > 0).then(|| (income as f64 * 100.0 / shares as f64).round() as i64)
}

/// Growth of a line against the period before: now / before - 1, where before is positive.
pub fn growth(now: &Statement, before: &Statement, item: Item) -> Option<f64> {
    over(now.get(item), before.get(item)).map(|it| it - 1.0)
}

/// Growth of a line against the same period of the year before.
pub fn year_over_year(company: &Company, statement: &Statement, item: Item) -> Option<f64> {
    growth(statement, company.year_before(statement)?, item)
}

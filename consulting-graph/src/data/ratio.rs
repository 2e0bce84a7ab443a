//! Financial ratios, each with one exact definition.
//!
//! Every function returns `None` if an input is missing or the divisor is not positive. For example, the margin of a
//! company without revenue is unknown rather than zero. Percentages are returned as fractions: 0.25 is 25 percent.

use super::{company::Company, item::Item, statement::Statement};

/// Returns `a / b` if `b` is positive.
fn divide(a: Option<i64>, b: Option<i64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (b > 0).then(|| a as f64 / b as f64)
}

/// Returns the gross margin: gross profit / revenue. Uses `gross_profit`.
pub(crate) fn gross_margin(statement: &Statement) -> Option<f64> {
    divide(gross_profit(statement), statement.get(Item::Revenue))
}

/// Returns the gross profit as reported, or revenue - cost of revenue if it is not reported.
pub(crate) fn gross_profit(statement: &Statement) -> Option<i64> {
    statement
        .get(Item::GrossProfit)
        .or_else(|| statement.get(Item::Revenue)?.checked_sub(statement.get(Item::CostOfRevenue)?))
}

/// Returns the operating margin: operating income / revenue.
pub(crate) fn operating_margin(statement: &Statement) -> Option<f64> {
    divide(statement.get(Item::OperatingIncome), statement.get(Item::Revenue))
}

/// Returns the net margin: net income / revenue.
pub(crate) fn net_margin(statement: &Statement) -> Option<f64> {
    divide(statement.get(Item::NetIncome), statement.get(Item::Revenue))
}

/// Returns the research intensity: research and development / revenue.
pub(crate) fn research_intensity(statement: &Statement) -> Option<f64> {
    divide(statement.get(Item::ResearchAndDevelopment), statement.get(Item::Revenue))
}

/// Returns the free cash flow: operating cash flow - capital expenditure.
pub(crate) fn free_cash_flow(statement: &Statement) -> Option<i64> {
    statement.get(Item::OperatingCashFlow)?.checked_sub(statement.get(Item::CapitalExpenditure)?)
}

/// Returns the free cash flow margin: free cash flow / revenue.
pub(crate) fn free_cash_flow_margin(statement: &Statement) -> Option<f64> {
    divide(free_cash_flow(statement), statement.get(Item::Revenue))
}

/// Returns the cash conversion: free cash flow / net income.
pub(crate) fn cash_conversion(statement: &Statement) -> Option<f64> {
    divide(free_cash_flow(statement), statement.get(Item::NetIncome))
}

/// Returns the net debt: long-term debt - cash and equivalents - marketable securities.
///
/// Securities count as zero if the company never reports any. If the company reports securities in other periods but
/// not in this one, they were probably filed under a tag that is not read, so the net debt is unknown.
pub(crate) fn net_debt(company: &Company, statement: &Statement) -> Option<i64> {
    let states = |it: &Statement| it.get(Item::MarketableSecurities).is_some();
    let securities = match statement.get(Item::MarketableSecurities) {
        Some(stated) => stated,
        None if company.annuals.iter().chain(&company.quarters).any(states) => return None,
        None => 0,
    };
    let liquid = statement.get(Item::Cash)?.checked_add(securities)?;
    statement.get(Item::Debt)?.checked_sub(liquid)
}

/// Returns the current ratio: current assets / current liabilities.
pub(crate) fn current_ratio(statement: &Statement) -> Option<f64> {
    divide(statement.get(Item::CurrentAssets), statement.get(Item::CurrentLiabilities))
}

/// Returns the debt-to-equity ratio: long-term debt / shareholders' equity.
pub(crate) fn debt_to_equity(statement: &Statement) -> Option<f64> {
    divide(statement.get(Item::Debt), statement.get(Item::Equity))
}

/// Returns the return on equity in a year: net income / shareholders' equity at the end of the year.
pub(crate) fn return_on_equity(annual: &Statement) -> Option<f64> {
    divide(annual.get(Item::NetIncome), annual.get(Item::Equity))
}

/// Returns the shareholder payout: share repurchases + dividends. If only one of them is reported, the other counts as
/// zero, because companies omit payments that they did not make.
pub(crate) fn payout(statement: &Statement) -> Option<i64> {
    match (statement.get(Item::Buybacks), statement.get(Item::Dividends)) {
        (None, None) => None,
        (a, b) => a.unwrap_or(0).checked_add(b.unwrap_or(0)),
    }
}

/// Returns the diluted earnings per share: net income / diluted shares, in cents, rounded to the nearest cent.
pub(crate) fn earnings_per_share(statement: &Statement) -> Option<i64> {
    let shares = statement.get(Item::DilutedShares)?;
    let income = statement.get(Item::NetIncome)?;
    (shares > 0).then(|| (income as f64 * 100.0 / shares as f64).round() as i64)
}

/// Returns the growth of a line item since an earlier statement: now / before - 1.
pub(crate) fn growth(now: &Statement, before: &Statement, item: Item) -> Option<f64> {
    divide(now.get(item), before.get(item)).map(|it| it - 1.0)
}

/// Returns the growth of a line item since the same period in the previous year.
pub(crate) fn year_over_year(company: &Company, statement: &Statement, item: Item) -> Option<f64> {
    growth(statement, company.year_before(statement)?, item)
}

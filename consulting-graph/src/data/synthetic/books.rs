//! Generates the company's accounts. Each quarter is computed from the one before.

use chrono::NaiveDate;

use super::{
    super::{
        item::{Item, Unit},
        origin::{Fact, Origin},
        rng::SeededRng,
        statement::{Period, Statement},
    },
    profile::Profile,
};

pub(super) const MILLION: i64 = 1_000_000;

/// Balance sheet in millions. Totals are computed from these line items.
#[derive(Debug, Clone)]
struct Balance {
    cash: i64,
    securities: i64,
    receivables: i64,
    inventory: i64,
    fixed: i64,
    goodwill: i64,
    payables: i64,
    accrued: i64,
    debt: i64,
    equity: i64,
}

/// Generates the statements for all periods.
pub(super) fn generate(
    profile: &Profile,
    periods: &[(Period, NaiveDate)],
    rng: &mut SeededRng,
) -> Vec<Statement> {
    let mut balance = opening_balance(profile);
    let mut revenue = profile.revenue;
    let mut shares = profile.shares;
    let mut quarters = Vec::with_capacity(periods.len());
    for (age, (period, end)) in (0..).zip(periods) {
        revenue = (revenue * (1000 + profile.growth + rng.between(-12, 12)) / 1000).max(100);
        let last_of_year = period.quarter.is_some_and(|it| it.get() == 4);
        let season = if last_of_year { 1060 } else { 1000 };
        let quarter = next_quarter(
            profile,
            &mut balance,
            age,
            revenue * season / 1000,
            shares,
            (*period, *end),
            rng,
        );
        // Repurchases retire two of every thousand shares per quarter.
        let has_buybacks = quarter.get(Item::Buybacks).is_some_and(|it| it > 0);
        shares = if has_buybacks { shares - shares / 500 } else { shares };
        quarters.push(quarter);
    }
    quarters
}

fn opening_balance(profile: &Profile) -> Balance {
    let of_revenue = |rate: i64| profile.revenue * rate / 1000;
    let cost = of_revenue(profile.cost);
    let mut balance = Balance {
        cash: of_revenue(profile.cash),
        securities: of_revenue(profile.cash / 3),
        receivables: of_revenue(profile.receivables),
        inventory: cost * profile.inventory / 1000,
        fixed: of_revenue(1_800),
        goodwill: of_revenue(900),
        payables: cost * profile.payables / 1000,
        accrued: of_revenue(350),
        debt: of_revenue(profile.debt),
        equity: 0,
    };
    balance.equity = balance.assets() - balance.liabilities();
    balance
}

/// Generates the statement of the next quarter and updates the balance sheet. Amounts are computed in millions.
fn next_quarter(
    profile: &Profile,
    balance: &mut Balance,
    age: i64,
    revenue: i64,
    shares: i64,
    (period, end): (Period, NaiveDate),
    rng: &mut SeededRng,
) -> Statement {
    let before = balance.clone();
    let of_revenue = |rate: i64| revenue * rate.max(0) / 1000;
    let cost = of_revenue((profile.cost + profile.cost_drift * age).clamp(150, 850));
    let research = of_revenue(profile.research + rng.between(-4, 4));
    let selling = of_revenue(profile.selling + rng.between(-5, 5));
    let other = before.cash * 8 / 1000 - before.debt * 11 / 1000;
    let gross = revenue - cost;
    let operating = gross - research - selling;
    let pretax = operating + other;
    let tax = (pretax * profile.tax / 1000).max(0);
    let net = pretax - tax;

    let depreciation = before.fixed * 25 / 1000;
    let share_pay = of_revenue(25);
    let receivables = of_revenue(profile.receivables + profile.receivables_drift * age);
    let inventory = cost * (profile.inventory + profile.inventory_drift * age).max(100) / 1000;
    let payables = cost * profile.payables / 1000;
    let tied_up = (receivables - before.receivables) + (inventory - before.inventory)
        - (payables - before.payables);
    let operating_cash = net + depreciation + share_pay - tied_up;

    let investment = of_revenue(profile.investment + profile.investment_drift * age);
    let free = operating_cash - investment;
    let dividends = (net * profile.dividends / 1000).max(0);
    let buybacks = (free * profile.buybacks / 1000).max(0);
    let unfinanced = before.cash + free - dividends - buybacks;
    let debt_raised = debt_needed(unfinanced, of_revenue(150));

    *balance = Balance {
        cash: unfinanced + debt_raised,
        receivables,
        inventory,
        fixed: before.fixed + investment - depreciation,
        payables,
        debt: before.debt + debt_raised,
        equity: before.equity + net + share_pay - buybacks - dividends,
        ..before
    };
    let lines = [
        (Item::Revenue, revenue),
        (Item::CostOfRevenue, cost),
        (Item::GrossProfit, gross),
        (Item::ResearchAndDevelopment, research),
        (Item::SellingAndAdministration, selling),
        (Item::OperatingIncome, operating),
        (Item::OtherIncome, other),
        (Item::PretaxIncome, pretax),
        (Item::IncomeTax, tax),
        (Item::NetIncome, net),
        (Item::DilutedShares, shares),
        (Item::Depreciation, depreciation),
        (Item::ShareBasedCompensation, share_pay),
        (Item::OperatingCashFlow, operating_cash),
        (Item::CapitalExpenditure, investment),
        (Item::Buybacks, buybacks),
        (Item::Dividends, dividends),
        (Item::DebtRaised, debt_raised),
        (Item::ChangeInCash, free - buybacks - dividends + debt_raised),
        (Item::Cash, balance.cash),
        (Item::MarketableSecurities, balance.securities),
        (Item::Receivables, balance.receivables),
        (Item::Inventory, balance.inventory),
        (Item::CurrentAssets, balance.current_assets()),
        (Item::FixedAssets, balance.fixed),
        (Item::Goodwill, balance.goodwill),
        (Item::Assets, balance.assets()),
        (Item::Payables, balance.payables),
        (Item::CurrentLiabilities, balance.current_liabilities()),
        (Item::Debt, balance.debt),
        (Item::Liabilities, balance.liabilities()),
        (Item::Equity, balance.equity),
    ];
    let facts = lines.into_iter().map(|(item, millions)| (item, fact(millions))).collect();
    Statement { period, end: Some(end), facts }
}

/// Returns the amount of debt to raise so that cash does not fall below `floor`, rounded up to a multiple of 50
/// million.
fn debt_needed(cash: i64, floor: i64) -> i64 {
    if cash >= floor { 0 } else { (floor - cash + 49) / 50 * 50 }
}

impl Balance {
    fn current_assets(&self) -> i64 {
        self.cash + self.securities + self.receivables + self.inventory
    }

    fn assets(&self) -> i64 {
        self.current_assets() + self.fixed + self.goodwill
    }

    fn current_liabilities(&self) -> i64 {
        self.payables + self.accrued
    }

    fn liabilities(&self) -> i64 {
        self.current_liabilities() + self.debt
    }
}

/// Builds the statement for a full year: sums the flows, takes the balances from the last quarter, and averages the
/// numbers of shares.
pub(super) fn annual(quarters: &[Statement]) -> Option<Statement> {
    let last = quarters.last()?;
    let value = |item: Item| {
        let all = quarters.iter().filter_map(|it| it.get(item));
        match item.unit() {
            Unit::DollarsInPeriod => Some(all.sum()),
            Unit::DollarsAtEnd => last.get(item),
            Unit::AverageShares => Some(all.sum::<i64>() / quarters.len() as i64),
        }
    };
    let facts = last
        .facts
        .keys()
        .filter_map(|&item| Some((item, Fact { value: value(item)?, origin: Origin::Synthetic })));
    Some(Statement {
        period: Period::year(last.period.year),
        end: last.end,
        facts: facts.collect(),
    })
}

fn fact(millions: i64) -> Fact {
    Fact { value: millions * MILLION, origin: Origin::Synthetic }
}

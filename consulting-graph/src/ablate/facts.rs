//! Facts about a company, from which moves with a known truth are made.

use crate::data::{Company, Item, SeededRng, Statement, Unit, number, ratio_table};

/// A figure of the company, as a sentence states it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    /// Name and period, such as `Revenue in FY2025`.
    pub(super) subject: String,
    value: FactValue,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum FactValue {
    Dollars(i64),
    Fraction(f64),
}

/// Line items that a move can refer to.
const ITEMS: [Item; 14] = [
    Item::Revenue,
    Item::GrossProfit,
    Item::ResearchAndDevelopment,
    Item::SellingAndAdministration,
    Item::OperatingIncome,
    Item::NetIncome,
    Item::OperatingCashFlow,
    Item::CapitalExpenditure,
    Item::Buybacks,
    Item::Receivables,
    Item::Inventory,
    Item::Assets,
    Item::Liabilities,
    Item::Equity,
];

impl Fact {
    /// Returns the value as text.
    pub(super) fn value(&self) -> String {
        format_value(self.value)
    }

    /// Returns a value that clearly differs from the true one, in the same form.
    pub(super) fn wrong_value(&self, rng: &mut SeededRng) -> String {
        let factor = [0.55, 0.65, 1.4, 1.6][rng.between(0, 3).unsigned_abs() as usize];
        format_value(match self.value {
            FactValue::Dollars(it) => FactValue::Dollars((it as f64 * factor).round() as i64),
            FactValue::Fraction(it) => FactValue::Fraction(it * factor),
        })
    }
}

fn format_value(value: FactValue) -> String {
    match value {
        FactValue::Dollars(it) => number::dollars(it),
        FactValue::Fraction(it) => number::percent(it),
    }
}

/// Returns the facts of the company's latest fiscal year and latest quarter, without its cash.
pub(super) fn facts(company: &Company) -> Vec<Fact> {
    let statements = company.annuals.last().into_iter().chain(company.quarters.last());
    let mut facts: Vec<Fact> = statements
        .flat_map(|statement| ITEMS.into_iter().filter_map(|it| item_fact(statement, it)))
        .collect();
    let ratios = ratio_table::table(company).into_iter();
    facts.extend(ratios.filter_map(|ratio| {
        let ratio_table::Value::Fraction(value) = ratio.value else { return None };
        // The wrong value of a small percentage would hardly differ from the true one.
        let subject = format!("{} in {}", ratio.name, ratio.period);
        (value.abs() >= 0.05).then_some(Fact { subject, value: FactValue::Fraction(value) })
    }));
    facts
}

/// Returns the newest cash balance, as a fact and in dollars.
pub(super) fn cash(company: &Company) -> Option<(Fact, i64)> {
    let newest = [company.quarters.last(), company.annuals.last()].into_iter().flatten();
    newest.filter_map(|it| Some((item_fact(it, Item::Cash)?, it.get(Item::Cash)?))).next()
}

fn item_fact(statement: &Statement, item: Item) -> Option<Fact> {
    let value = statement.get(item).filter(|it| *it >= 10_000_000)?;
    let preposition = if item.unit() == Unit::DollarsAtEnd { "at the end of" } else { "in" };
    let subject = format!("{item} {preposition} {}", statement.period);
    Some(Fact { subject, value: FactValue::Dollars(value) })
}

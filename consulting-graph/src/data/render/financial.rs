//! Renders the financial document.

use super::{
    super::{
        company::{Company, Note, Split, Subject},
        item::Item,
        number, ratio, ratio_table,
        statement::Statement,
    },
    layout::{documents, header, push_section},
    table::table,
};

/// The sections of the financial document, in order.
const SECTIONS: [&str; 11] = [
    "Quarterly Revenue", "Revenue by Segment", "Revenue by Geography", "Income Statement",
    "Balance Sheet", "Cash Flow", "Stock Price", "Key Ratios", "Key Business Metrics",
    "Management Guidance", "Recent Corporate Events",
];

/// Maximum number of periods shown in a table.
const MAX_PERIODS: usize = 8;

/// Renders the financial document as Markdown.
pub(crate) fn financial(company: &Company) -> String {
    let mut text = header(company, "Financial data");
    for statements in [&company.quarters, &company.annuals] {
        text.push_str(&gap_notes(newest(statements)));
    }
    let quarters = newest(&company.quarters);
    let bodies: [String; 11] = [
        revenue(company, quarters),
        splits(newest(&company.segments)),
        splits(newest(&company.geography)),
        quarters_and_years(company, INCOME, ("Earnings per share", per_share)),
        quarters_and_years(company, BALANCE, ("Net debt", net_debt)),
        quarters_and_years(company, CASH_FLOW, ("Free cash flow", free_cash_flow)),
        prices(company),
        ratios(company),
        notes(&company.metrics),
        notes(&company.guidance),
        notes(&company.events),
    ];
    for (name, body) in SECTIONS.iter().zip(&bodies) {
        push_section(&mut text, name, body);
    }
    text.push_str(&documents(company, Subject::Financial));
    text
}

const INCOME: &[Item] = &[
    Item::Revenue,
    Item::CostOfRevenue,
    Item::GrossProfit,
    Item::ResearchAndDevelopment,
    Item::SellingAndAdministration,
    Item::OperatingIncome,
    Item::OtherIncome,
    Item::PretaxIncome,
    Item::IncomeTax,
    Item::NetIncome,
    Item::DilutedShares,
];

const BALANCE: &[Item] = &[
    Item::Cash,
    Item::MarketableSecurities,
    Item::Receivables,
    Item::Inventory,
    Item::CurrentAssets,
    Item::FixedAssets,
    Item::Goodwill,
    Item::Assets,
    Item::Payables,
    Item::CurrentLiabilities,
    Item::Debt,
    Item::Liabilities,
    Item::Equity,
];

const CASH_FLOW: &[Item] = &[
    Item::NetIncome,
    Item::Depreciation,
    Item::ShareBasedCompensation,
    Item::OperatingCashFlow,
    Item::CapitalExpenditure,
    Item::Buybacks,
    Item::Dividends,
    Item::DebtRaised,
    Item::ChangeInCash,
];

/// An additional table row: its label, and the function that computes its cell for a statement.
type Computed = (&'static str, fn(&Company, &Statement) -> Option<String>);

fn per_share(_: &Company, statement: &Statement) -> Option<String> {
    ratio::earnings_per_share(statement).map(number::cents)
}

fn net_debt(company: &Company, statement: &Statement) -> Option<String> {
    ratio::net_debt(company, statement).map(number::dollars)
}

fn free_cash_flow(_: &Company, statement: &Statement) -> Option<String> {
    ratio::free_cash_flow(statement).map(number::dollars)
}

/// Returns a note for each gap between the periods shown. Without the note, adjacent table columns would look like
/// consecutive periods.
fn gap_notes(statements: &[Statement]) -> String {
    let number = |it: &Statement| match it.period.quarter {
        Some(quarter) => it.period.year * 4 + i32::from(quarter.get()),
        None => it.period.year,
    };
    let pairs = statements.iter().zip(statements.iter().skip(1));
    let apart = pairs.filter(|(before, after)| number(after) - number(before) > 1);
    let note = |(before, after): (&Statement, &Statement)| {
        format!("Note: no data between {} and {}.\n", before.period, after.period)
    };
    apart.map(note).collect()
}

fn newest<T>(all: &[T]) -> &[T] {
    &all[all.len().saturating_sub(MAX_PERIODS)..]
}

fn revenue(company: &Company, quarters: &[Statement]) -> String {
    let line = |it: &Statement| {
        let revenue = it.get(Item::Revenue)?;
        let growth = ratio::year_over_year(company, it, Item::Revenue);
        let margin = ratio::gross_margin(it);
        Some(vec![
            it.period.to_string(),
            number::dollars(revenue),
            growth.map_or_else(dash, number::percent),
            margin.map_or_else(dash, number::percent),
        ])
    };
    let header = ["Quarter", "Revenue", "Growth (YoY)", "Gross margin"].map(str::to_owned);
    table(&header, &quarters.iter().filter_map(line).collect::<Vec<_>>())
}

fn splits(splits: &[Split]) -> String {
    let Some(newest) = splits.last() else { return String::new() };
    let header: Vec<String> = ["Quarter".to_owned()]
        .into_iter()
        .chain(newest.parts.iter().map(|it| it.0.clone()))
        .collect();
    let line = |it: &Split| {
        let sum: i64 = it.parts.iter().map(|it| it.1).sum();
        let cell = |&(_, part): &(String, i64)| {
            format!(
                "{} ({})",
                number::dollars(part),
                number::percent(part as f64 / sum.max(1) as f64)
            )
        };
        [it.period.to_string()].into_iter().chain(it.parts.iter().map(cell)).collect()
    };
    table(&header, &splits.iter().map(line).collect::<Vec<Vec<String>>>())
}

/// Renders the quarters in one table and the years in another.
fn quarters_and_years(company: &Company, items: &[Item], computed: Computed) -> String {
    let quarters = statements(company, newest(&company.quarters), items, computed);
    let annuals = statements(company, newest(&company.annuals), items, computed);
    match (quarters.is_empty(), annuals.is_empty()) {
        (false, false) => format!("{quarters}\n{annuals}"),
        _ => quarters + &annuals,
    }
}

fn statements(
    company: &Company,
    statements: &[Statement],
    items: &[Item],
    computed: Computed,
) -> String {
    let header: Vec<String> = [String::new()]
        .into_iter()
        .chain(statements.iter().map(|it| it.period.to_string()))
        .collect();
    let known = items.iter().filter(|item| statements.iter().any(|it| it.get(**item).is_some()));
    let mut lines: Vec<Vec<String>> = known
        .map(|&item| {
            let cell = |it: &Statement| it.get(item).map_or_else(dash, |value| item.format(value));
            [item.label().to_owned()].into_iter().chain(statements.iter().map(cell)).collect()
        })
        .collect();
    let (name, of) = computed;
    if statements.iter().any(|it| of(company, it).is_some()) {
        let cells = statements.iter().map(|it| of(company, it).unwrap_or_else(dash));
        lines.push([name.to_owned()].into_iter().chain(cells).collect());
    }
    table(&header, &lines)
}

fn prices(company: &Company) -> String {
    let lines: Vec<Vec<String>> = newest(&company.prices)
        .iter()
        .map(|it| vec![it.date.to_string(), number::cents(it.cents)])
        .collect();
    table(&["Date".to_owned(), "Close".to_owned()], &lines)
}

fn ratios(company: &Company) -> String {
    let line = |it: &ratio_table::Ratio| {
        let sector = it.sector.map_or_else(dash, |it| it.to_string());
        let (name, definition) = (it.name.to_owned(), it.definition.to_owned());
        vec![name, it.period.to_string(), it.value.to_string(), sector, definition]
    };
    let header = ["Ratio", "Period", "Company", "Sector", "Definition"].map(str::to_owned);
    table(&header, &ratio_table::table(company).iter().map(line).collect::<Vec<_>>())
}

fn notes(notes: &[Note]) -> String {
    let line = |it: &Note| match it.date {
        Some(date) => format!("- {date}: {} ({})\n", it.text, it.origin),
        None => format!("- {} ({})\n", it.text, it.origin),
    };
    notes.iter().map(line).collect()
}

fn dash() -> String {
    "-".to_owned()
}

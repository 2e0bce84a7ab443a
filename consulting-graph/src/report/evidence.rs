//! Traces findings back to the figures and filings that they are based on.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;

use crate::{
    data::{Company, Fact, Item, Origin, Period, Statement, Unit},
    finding::Finding,
};

/// Names of derived figures in findings, with the line items that they are computed from.
const DERIVED: &[(&str, &[Item])] = &[
    ("gross margin", &[Item::GrossProfit, Item::Revenue]),
    ("operating margin", &[Item::OperatingIncome, Item::Revenue]),
    ("net margin", &[Item::NetIncome, Item::Revenue]),
    ("research intensity", &[Item::ResearchAndDevelopment, Item::Revenue]),
    ("free cash flow", &[Item::OperatingCashFlow, Item::CapitalExpenditure]),
    ("cash conversion", &[Item::OperatingCashFlow, Item::CapitalExpenditure, Item::NetIncome]),
    ("net debt", &[Item::Debt, Item::Cash, Item::MarketableSecurities]),
    ("current ratio", &[Item::CurrentAssets, Item::CurrentLiabilities]),
    ("debt to equity", &[Item::Debt, Item::Equity]),
    ("return on equity", &[Item::NetIncome, Item::Equity]),
    ("shareholder payout", &[Item::Buybacks, Item::Dividends]),
    ("earnings per share", &[Item::NetIncome, Item::DilutedShares]),
];

/// A figure of the company in one period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure<'a> {
    pub(super) item: Item,
    pub(super) period: Period,
    pub(super) fact: &'a Fact,
}

impl Figure<'_> {
    /// Returns the id of the figure in the report.
    pub(super) fn id(&self) -> String {
        let name = format!("figure-{:?}-{}", self.item, self.period);
        name.to_lowercase().replace(' ', "-")
    }

    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.item, self.period)
    }

    pub(super) fn value(&self) -> String {
        self.item.format(self.fact.value)
    }

    /// Returns the accession numbers of the filings that report the figure, or from which it is derived.
    pub(super) fn accessions(&self) -> Vec<&str> {
        match &self.fact.origin {
            Origin::Filed { accession, .. } => vec![accession],
            Origin::Derived { accessions, .. } => accessions.iter().map(String::as_str).collect(),
            Origin::Synthetic | Origin::File { .. } => Vec::new(),
        }
    }
}

/// Returns the figures that a finding is based on: those that its claim or its quotations name, in the periods that
/// they name or with the values that they state.
pub(super) fn figures<'a>(company: &'a Company, finding: &Finding) -> Vec<Figure<'a>> {
    let quotes = finding.draft.evidence.iter().map(|it| it.quote.as_str());
    let text =
        [finding.draft.claim.as_str()].into_iter().chain(quotes).collect::<Vec<_>>().join(" | ");
    let items = named_items(&text);
    let statements = company.annuals.iter().chain(&company.quarters);
    let of_statement = |statement: &'a Statement| {
        let is_named = names_period(&text, statement.period);
        let facts = statement.facts.iter();
        facts.map(move |(item, fact)| {
            (Figure { item: *item, period: statement.period, fact }, is_named)
        })
    };
    let is_used = |(figure, is_named): &(Figure<'_>, bool)| {
        // The balance sheet at the end of the fourth quarter is that of the year.
        let is_repeated = figure.item.unit() == Unit::DollarsAtEnd
            && figure.period.quarter.is_some_and(|it| it.get() == 4);
        let is_stated = !is_repeated && text.contains(&figure.value());
        items.contains(&figure.item) && (*is_named || is_stated)
    };
    statements.flat_map(of_statement).filter(is_used).map(|it| it.0).collect()
}

/// Returns the line items that a text names, directly or by a figure that is derived from them.
fn named_items(text: &str) -> BTreeSet<Item> {
    let mut rest = text.to_lowercase();
    let mut names: Vec<(String, Vec<Item>)> =
        Item::ALL.iter().map(|it| (it.label().to_lowercase(), vec![*it])).collect();
    names.extend(DERIVED.iter().map(|(name, items)| ((*name).to_owned(), items.to_vec())));
    // A longer name takes precedence over a shorter one that it contains, such as "cost of revenue" over "revenue".
    names.sort_by_key(|it| std::cmp::Reverse(it.0.len()));
    let mut items = BTreeSet::new();
    for (name, named) in names {
        if rest.contains(&name) {
            items.extend(named);
            rest = rest.replace(&name, "");
        }
    }
    items
}

/// Returns whether a text names a period. `Q3 FY2025` does not name the fiscal year `FY2025`.
fn names_period(text: &str, period: Period) -> bool {
    let name = period.to_string();
    text.match_indices(&name).any(|(at, _)| {
        let before =
            text[..at].strip_suffix(' ').and_then(|it| it.strip_suffix(['1', '2', '3', '4']));
        period.quarter.is_some() || !before.is_some_and(|it| it.ends_with('Q'))
    })
}

/// A filing with the SEC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filing {
    pub(super) form: String,
    pub(super) filed: NaiveDate,
}

/// Returns the filings that report figures of the company, by accession number.
pub(super) fn filings(company: &Company) -> BTreeMap<&str, Filing> {
    let facts = company.annuals.iter().chain(&company.quarters).flat_map(|it| it.facts.values());
    let filed = facts.filter_map(|it| match &it.origin {
        Origin::Filed { form, filed, accession, .. } => {
            Some((accession.as_str(), Filing { form: form.clone(), filed: *filed }))
        }
        _ => None,
    });
    filed.collect()
}

/// Returns the address of a filing's index page at the SEC.
pub(super) fn filing_address(company: &Company, accession: &str) -> Option<String> {
    let is_number = accession.chars().all(|it| it.is_ascii_digit() || it == '-');
    let folder = accession.replace('-', "");
    let cik = company.cik.filter(|_| is_number)?;
    Some(format!("https://www.sec.gov/Archives/edgar/data/{cik}/{folder}/{accession}-index.htm"))
}

/// Returns the id of a filing in the report.
pub(super) fn filing_id(accession: &str) -> String {
    format!("filing-{accession}")
}

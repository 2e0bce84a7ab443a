//! Events that the filings of a company show: 8-K filings, periodic reports, restated values and changed tags.

use std::collections::BTreeSet;

use app_support::plural::counted;
use chrono::NaiveDate;

use super::{
    company::Company,
    item::{Item, Unit},
    origin::{Fact, Origin},
    statement::Statement,
};

/// Maximum number of events of each kind that are listed, except 8-K filings.
const MAX_EVENTS: usize = 6;

/// Maximum number of 8-K filings that are listed.
const MAX_CURRENT_REPORTS: usize = 12;

/// An event in a company's filings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilingEvent {
    pub(crate) filed: NaiveDate,
    pub(crate) kind: FilingEventKind,
    /// The event in one sentence without a full stop.
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilingEventKind {
    /// The first report on a period.
    Report,
    /// A value that differs from the one that was reported first.
    Restatement,
    /// A line item that is filed under a different XBRL tag than before.
    ChangedTag,
    /// A filing of form 8-K.
    CurrentReport {
        /// Whether the filing is bad news for the company, regardless of its details.
        is_unfavourable: bool,
    },
}

/// Returns the events in the filings, newest first. Data from other sources has none.
pub(crate) fn events(company: &Company) -> Vec<FilingEvent> {
    let mut events = reports(company);
    events.extend(restatements(company));
    events.extend(changed_tags(company));
    events.extend(current_reports(company));
    events.sort_by(|a, b| b.cmp(a));
    events
}

fn newest(mut events: Vec<FilingEvent>) -> Vec<FilingEvent> {
    events.sort_by(|a, b| b.cmp(a));
    events.dedup();
    events.truncate(MAX_EVENTS);
    events
}

fn current_reports(company: &Company) -> impl Iterator<Item = FilingEvent> {
    company.current_reports.iter().take(MAX_CURRENT_REPORTS).map(|it| {
        let kind = FilingEventKind::CurrentReport { is_unfavourable: it.is_unfavourable() };
        FilingEvent { filed: it.filed, kind, text: it.sentence() }
    })
}

fn reports(company: &Company) -> Vec<FilingEvent> {
    let first_filing = |statement: &Statement| {
        let filings = statement.facts.values().filter_map(|it| match &it.origin {
            Origin::Filed { filed, form, accession, .. } => Some((*filed, form, accession)),
            _ => None,
        });
        let (filed, form, accession) = filings.min()?;
        let (period, days) = (statement.period, (filed - statement.end?).num_days());
        let text = format!(
            "the {form} for {period} was filed {} after the end of the period ({accession})",
            counted(days, "day", "days")
        );
        Some(FilingEvent { filed, kind: FilingEventKind::Report, text })
    };
    // There is no report for the fourth quarter, because the annual report covers it.
    let quarters =
        company.quarters.iter().filter(|it| it.period.quarter.is_some_and(|it| it.get() < 4));
    newest(company.annuals.iter().chain(quarters).filter_map(first_filing).collect())
}

fn restatements(company: &Company) -> Vec<FilingEvent> {
    let statements = company.annuals.iter().chain(&company.quarters);
    let events = statements.flat_map(|statement| {
        // The balance sheet at the end of the fourth quarter is the same as at the end of the year.
        let is_last = statement.period.quarter.is_some_and(|it| it.get() == 4);
        let is_repeated = move |item: &Item| is_last && item.unit() == Unit::DollarsAtEnd;
        statement.facts.iter().filter(move |it| !is_repeated(it.0)).filter_map(|(item, fact)| {
            let Origin::Filed { form, filed, accession, restated_from: Some(from), .. } =
                &fact.origin
            else {
                return None;
            };
            let (from, to) = (item.format(*from), item.format(fact.value));
            // The old and the new value can be rounded to the same text.
            (from != to).then(|| FilingEvent {
                filed: *filed,
                kind: FilingEventKind::Restatement,
                text: format!(
                    "{item} of {} {} restated from {from} to {to} ({form}, {accession})",
                    statement.period,
                    if item.is_plural() { "were" } else { "was" }
                ),
            })
        })
    });
    newest(events.collect())
}

fn changed_tags(company: &Company) -> Vec<FilingEvent> {
    let mut events = Vec::new();
    for statements in [&company.annuals, &company.quarters] {
        for pair in statements.windows(2) {
            let [before, after] = pair else { continue };
            let items: BTreeSet<Item> = after.facts.keys().copied().collect();
            events.extend(items.into_iter().filter_map(|item| {
                let (old, _) = tag(before.facts.get(&item)?)?;
                let (new, filed) = tag(after.facts.get(&item)?)?;
                let text =
                    format!("{item} is filed as {new} from {}, previously as {old}", after.period);
                let kind = FilingEventKind::ChangedTag;
                (old != new).then_some(FilingEvent { filed, kind, text })
            }));
        }
    }
    newest(events)
}

fn tag(fact: &Fact) -> Option<(&str, NaiveDate)> {
    match &fact.origin {
        Origin::Filed { tag, filed, .. } | Origin::Derived { tag, filed, .. } => {
            Some((tag, *filed))
        }
        Origin::Synthetic | Origin::File { .. } => None,
    }
}

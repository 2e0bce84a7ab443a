//! The values of one XBRL tag as known on the cut-off date.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::{
    super::{
        item::Unit,
        origin::{Fact, Origin},
        statement::Period,
    },
    calendar::{Calendar, Span},
    facts::Value,
};

/// The values of one tag. For each span of days, it contains only the value that was filed last.
#[derive(Debug)]
pub(super) struct Series {
    tag: String,
    /// End date of the most recent period or balance sheet that has a value.
    pub(super) newest: NaiveDate,
    /// Values that cover a period, by the first and last day of the period.
    spans: BTreeMap<(NaiveDate, NaiveDate), FiledValue>,
    /// Balance sheet values, by date.
    pub(super) at_end: BTreeMap<NaiveDate, Fact>,
}

/// A value with the filing that reports it. `first` is the value that was originally reported for the same period.
#[derive(Debug, Clone)]
struct FiledValue {
    value: i64,
    filed: NaiveDate,
    form: String,
    accession: String,
    first: i64,
}

impl Series {
    /// Builds the series for a tag. Returns `None` if there are no values.
    pub(super) fn from_values<'a>(
        tag: &str,
        values: impl Iterator<Item = &'a Value>,
    ) -> Option<Self> {
        let mut filed: Vec<&Value> = values.collect();
        // Among filings of the same day, the one with the higher accession number counts as the later one.
        filed.sort_by(|a, b| (a.filed, &a.accession).cmp(&(b.filed, &b.accession)));
        let newest = filed.iter().map(|it| it.end).max()?;
        let mut spans = BTreeMap::new();
        let mut at_end = BTreeMap::new();
        for it in filed {
            let Some(value) = it.as_whole_number() else { continue };
            match it.start {
                Some(start) => record_value(&mut spans, (start, it.end), it, value),
                None => record_value(&mut at_end, it.end, it, value),
            }
        }
        let at_end = at_end.into_iter().map(|(end, known)| (end, known.fact(tag))).collect();
        Some(Self { tag: tag.to_owned(), newest, spans, at_end })
    }

    /// Returns the values for full years and single quarters. Quarters that are not reported are derived if possible.
    pub(super) fn flows(
        &self,
        calendar: &Calendar,
        unit: Unit,
    ) -> BTreeMap<(Period, NaiveDate), Fact> {
        let mut reported: BTreeMap<Span, (NaiveDate, &FiledValue)> = BTreeMap::new();
        for ((start, end), known) in &self.spans {
            if let Some(span) = calendar.classify(*start, *end) {
                reported.insert(span, (*end, known));
            }
        }
        let mut flows = BTreeMap::new();
        for (span, (end, known)) in &reported {
            let period = match *span {
                Span::Quarter(year, quarter) => Period::quarter(year, quarter),
                Span::ToDate(year, 4) => Some(Period::year(year)),
                Span::ToDate(..) => None,
            };
            if let Some(period) = period {
                flows.insert((period, *end), known.fact(&self.tag));
            }
        }
        // Missing quarters are derived by subtraction, which is not possible for averages.
        if unit == Unit::DollarsInPeriod {
            self.derive(&reported, &mut flows);
        }
        flows
    }

    fn derive(
        &self,
        reported: &BTreeMap<Span, (NaiveDate, &FiledValue)>,
        flows: &mut BTreeMap<(Period, NaiveDate), Fact>,
    ) {
        for span in reported.keys() {
            let Span::ToDate(year, quarter) = *span else { continue };
            if reported.contains_key(&Span::Quarter(year, quarter)) {
                continue;
            }
            let Some((parts, how)) = parts_to_subtract(reported, year, quarter) else { continue };
            let (end, whole) = reported[span];
            let (Some(period), Some(fact)) =
                (Period::quarter(year, quarter), self.subtract(whole, &parts, &how))
            else {
                continue;
            };
            flows.insert((period, end), fact);
        }
    }

    fn subtract(&self, whole: &FiledValue, parts: &[&FiledValue], how: &str) -> Option<Fact> {
        let value = parts.iter().try_fold(whole.value, |left, it| left.checked_sub(it.value))?;
        let all = || parts.iter().copied().chain([whole]);
        let mut accessions: Vec<String> = all().map(|it| it.accession.clone()).collect();
        accessions.sort();
        accessions.dedup();
        let filed = all().map(|it| it.filed).max()?;
        let origin =
            Origin::Derived { tag: self.tag.clone(), how: how.to_owned(), filed, accessions };
        Some(Fact { value, origin })
    }
}

/// Returns the values to subtract from the cumulative value of quarters 1 to `quarter`, so that only the value of the
/// last quarter remains. Also returns the formula as text.
fn parts_to_subtract<'a>(
    reported: &BTreeMap<Span, (NaiveDate, &'a FiledValue)>,
    year: i32,
    quarter: u8,
) -> Option<(Vec<&'a FiledValue>, String)> {
    let get = |span: Span| reported.get(&span).map(|it| it.1);
    let whole = if quarter == 4 { "FY".to_owned() } else { format!("{}M", 3 * quarter) };
    if quarter > 2
        && let Some(known) = get(Span::ToDate(year, quarter - 1))
    {
        return Some((vec![known], format!("{whole} - {}M", 3 * (quarter - 1))));
    }
    let quarters: Option<Vec<&FiledValue>> =
        (1..quarter).map(|it| get(Span::Quarter(year, it))).collect();
    let names: Vec<String> = (1..quarter).map(|it| format!("Q{it}")).collect();
    Some((quarters?, format!("{whole} - {}", names.join(" - "))))
}

fn record_value<K: Ord>(map: &mut BTreeMap<K, FiledValue>, key: K, it: &Value, value: i64) {
    let known = FiledValue {
        value,
        filed: it.filed,
        form: it.form.clone(),
        accession: it.accession.clone(),
        first: value,
    };
    match map.get_mut(&key) {
        // If a later filing repeats the value, the earlier filing stays recorded as its origin.
        Some(before) if before.value == value => {}
        Some(before) => *before = FiledValue { first: before.first, ..known },
        None => drop(map.insert(key, known)),
    }
}

impl FiledValue {
    fn fact(&self, tag: &str) -> Fact {
        let origin = Origin::Filed {
            tag: tag.to_owned(),
            form: self.form.clone(),
            filed: self.filed,
            accession: self.accession.clone(),
            restated_from: (self.first != self.value).then_some(self.first),
        };
        Fact { value: self.value, origin }
    }
}

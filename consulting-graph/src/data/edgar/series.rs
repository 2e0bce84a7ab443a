//! The values of one tag, as known on a day.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::{
    super::{Fact, Origin, Period, Unit},
    calendar::{Calendar, Span},
    facts::Value,
};

/// The values of one tag: one for each span of days, the one filed last.
#[derive(Debug)]
pub(super) struct Series {
    tag: String,
    /// The end of its newest value.
    pub(super) newest: NaiveDate,
    /// Values over a time, by its first and last day.
    over: BTreeMap<(NaiveDate, NaiveDate), Known>,
    /// Values at a day.
    pub(super) at_end: BTreeMap<NaiveDate, Fact>,
}

/// A value with what is needed to compute with it.
#[derive(Debug, Clone)]
struct Known {
    value: i64,
    filed: NaiveDate,
    form: String,
    accession: String,
    first: i64,
}

impl Series {
    /// Sorts the values of a tag; none when there are none.
    pub(super) fn of<'a>(tag: &str, values: impl Iterator<Item = &'a Value>) -> Option<Self> {
        let mut filed: Vec<&Value> = values.collect();
        // Filings of one day are told apart by their numbers, which grow.
        filed.sort_by(|a, b| (a.filed, &a.accession).cmp(&(b.filed, &b.accession)));
        let newest = filed.iter().map(|it| it.end).max()?;
        let mut over = BTreeMap::new();
        let mut at_end = BTreeMap::new();
        for it in filed {
            let Some(value) = it.whole() else { continue };
            match it.start {
                Some(start) => note(&mut over, (start, it.end), it, value),
                None => note(&mut at_end, it.end, it, value),
            }
        }
        let at_end = at_end.into_iter().map(|(end, known)| (end, known.fact(tag))).collect();
        Some(Self { tag: tag.to_owned(), newest, over, at_end })
    }

    /// The values of years and quarters, those computed that are not told.
    pub(super) fn flows(
        &self,
        calendar: &Calendar,
        unit: Unit,
    ) -> BTreeMap<(Period, NaiveDate), Fact> {
        let mut told: BTreeMap<Span, (NaiveDate, &Known)> = BTreeMap::new();
        for ((start, end), known) in &self.over {
            if let Some(span) = calendar.place(*start, *end) {
                told.insert(span, (*end, known));
            }
        }
        let mut flows = BTreeMap::new();
        for (span, (end, known)) in &told {
            let period = match *span {
                Span::Quarter(year, quarter) => Period::quarter(year, quarter),
                Span::ToDate(year, 4) => Some(Period::year(year)),
                Span::ToDate(..) => None,
            };
            if let Some(period) = period {
                flows.insert((period, *end), known.fact(&self.tag));
            }
        }
        // Averages do not add up, so nothing can be taken from them.
        if unit == Unit::DollarsInPeriod {
            self.derive(&told, &mut flows);
        }
        flows
    }

    fn derive(
        &self,
        told: &BTreeMap<Span, (NaiveDate, &Known)>,
        flows: &mut BTreeMap<(Period, NaiveDate), Fact>,
    ) {
        for span in told.keys() {
            let Span::ToDate(year, quarter) = *span else { continue };
            if told.contains_key(&Span::Quarter(year, quarter)) {
                continue;
            }
            let Some((parts, how)) = earlier(told, year, quarter) else { continue };
            let (end, whole) = told[span];
            let (Some(period), Some(fact)) =
                (Period::quarter(year, quarter), self.less(whole, &parts, &how))
            else {
                continue;
            };
            flows.insert((period, end), fact);
        }
    }

    fn less(&self, whole: &Known, parts: &[&Known], how: &str) -> Option<Fact> {
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

/// What has to be taken from the first `quarter` quarters of a year to leave the last of them.
fn earlier<'a>(
    told: &BTreeMap<Span, (NaiveDate, &'a Known)>,
    year: i32,
    quarter: u8,
) -> Option<(Vec<&'a Known>, String)> {
    let get = |span: Span| told.get(&span).map(|it| it.1);
    let whole = if quarter == 4 { "FY".to_owned() } else { format!("{}M", 3 * quarter) };
    if quarter > 2
        && let Some(known) = get(Span::ToDate(year, quarter - 1))
    {
        return Some((vec![known], format!("{whole} - {}M", 3 * (quarter - 1))));
    }
    let quarters: Option<Vec<&Known>> =
        (1..quarter).map(|it| get(Span::Quarter(year, it))).collect();
    let names: Vec<String> = (1..quarter).map(|it| format!("Q{it}")).collect();
    Some((quarters?, format!("{whole} - {}", names.join(" - "))))
}

fn note<K: Ord>(map: &mut BTreeMap<K, Known>, key: K, it: &Value, value: i64) {
    let known = Known {
        value,
        filed: it.filed,
        form: it.form.clone(),
        accession: it.accession.clone(),
        first: value,
    };
    match map.get_mut(&key) {
        // A later filing that only repeats a value is not where it comes from.
        Some(before) if before.value == value => {}
        Some(before) => *before = Known { first: before.first, ..known },
        None => drop(map.insert(key, known)),
    }
}

impl Known {
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

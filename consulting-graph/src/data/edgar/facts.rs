//! Format of the SEC's companyfacts files.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use serde::{Deserialize, de::IgnoredAny};

/// A companyfacts file. The values are nested by taxonomy, tag and unit.
#[derive(Debug, Deserialize)]
pub(super) struct CompanyFacts {
    pub(super) cik: Option<u64>,
    #[serde(rename = "entityName", default)]
    pub(super) entity_name: String,
    facts: BTreeMap<String, BTreeMap<String, Tag>>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    units: BTreeMap<String, Vec<Entry>>,
}

/// A value, or an entry in an unknown format. Unknown entries are skipped so that they do not make the whole file
/// unreadable.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    Value(Value),
    Invalid(IgnoredAny),
}

/// A value reported by one filing.
///
/// Only the start and end dates identify the period of a value. The JSON fields `fy` and `fp` describe the *filing*,
/// which also repeats values from other periods.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Value {
    /// `None` for balance sheet values, which refer to a single day.
    pub(super) start: Option<NaiveDate>,
    pub(super) end: NaiveDate,
    val: serde_json::Number,
    pub(super) form: String,
    pub(super) filed: NaiveDate,
    #[serde(rename = "accn")]
    pub(super) accession: String,
}

impl Value {
    /// Returns the value as a whole number; `None` if it is out of range.
    pub(super) fn as_whole_number(&self) -> Option<i64> {
        self.val.as_i64().or_else(|| {
            let value = self.val.as_f64()?.round();
            (value.abs() < 9.0e18).then_some(value as i64)
        })
    }
}

impl CompanyFacts {
    fn tag(&self, tag: &str) -> Option<&Tag> {
        self.facts.get("us-gaap")?.get(tag)
    }

    /// Returns the values of a tag that are in the given unit and were filed no later than `as_of`.
    pub(super) fn values(
        &self,
        tag: &str,
        unit: &str,
        as_of: NaiveDate,
    ) -> impl Iterator<Item = &Value> {
        let entries =
            self.tag(tag).and_then(|it| it.units.get(unit)).map(Vec::as_slice).unwrap_or_default();
        filed_by(entries, as_of)
    }

    /// Returns all dollar values that were filed no later than `as_of`, regardless of their tag.
    pub(super) fn dollar_values(&self, as_of: NaiveDate) -> impl Iterator<Item = &Value> {
        let tags = self.facts.get("us-gaap").into_iter().flat_map(BTreeMap::values);
        tags.filter_map(|it| it.units.get("USD")).flat_map(move |it| filed_by(it, as_of))
    }

    /// Returns a warning if a tag is reported in units other than `unit`. Called only if the tag has no usable value in
    /// `unit`.
    pub(super) fn other_units(&self, tag: &str, unit: &str) -> Option<String> {
        let units: Vec<&str> =
            self.tag(tag)?.units.keys().map(String::as_str).filter(|it| *it != unit).collect();
        (!units.is_empty()).then(|| {
            format!("{tag} is reported in {}, not in {unit}, and was ignored", units.join(", "))
        })
    }
}

fn filed_by(entries: &[Entry], as_of: NaiveDate) -> impl Iterator<Item = &Value> {
    entries.iter().filter_map(move |it| match it {
        Entry::Value(value) if value.filed <= as_of => Some(value),
        Entry::Value(_) | Entry::Invalid(_) => None,
    })
}

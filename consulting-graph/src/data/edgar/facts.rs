//! The shape of the SEC's files.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use serde::{Deserialize, de::IgnoredAny};

/// A companyfacts file: taxonomy, tag, unit, values.
#[derive(Debug, Deserialize)]
pub(super) struct CompanyFacts {
    #[serde(rename = "entityName", default)]
    pub(super) entity_name: String,
    facts: BTreeMap<String, BTreeMap<String, Tag>>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    units: BTreeMap<String, Vec<Entry>>,
}

/// A value, or something else that is passed over: one odd entry must not cost the whole file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    Value(Value),
    Odd(IgnoredAny),
}

/// One value as one filing states it.
///
/// Its `fy` and `fp` are those of the *filing*, which also repeats other periods; so the dates alone say what it is of.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Value {
    /// None for values at a day.
    pub(super) start: Option<NaiveDate>,
    pub(super) end: NaiveDate,
    val: serde_json::Number,
    pub(super) form: String,
    pub(super) filed: NaiveDate,
    #[serde(rename = "accn")]
    pub(super) accession: String,
}

impl Value {
    /// The value as a whole number; none when it is beyond all accounts.
    pub(super) fn whole(&self) -> Option<i64> {
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

    /// All values of a tag in a unit that were filed by a day.
    pub(super) fn values(
        &self,
        tag: &str,
        unit: &str,
        as_of: NaiveDate,
    ) -> impl Iterator<Item = &Value> {
        let entries =
            self.tag(tag).and_then(|it| it.units.get(unit)).map(Vec::as_slice).unwrap_or_default();
        known(entries, as_of)
    }

    /// All dollar values of all tags that were filed by a day.
    pub(super) fn rows(&self, as_of: NaiveDate) -> impl Iterator<Item = &Value> {
        let tags = self.facts.get("us-gaap").into_iter().flat_map(BTreeMap::values);
        tags.filter_map(|it| it.units.get("USD")).flat_map(move |it| known(it, as_of))
    }

    /// A remark on a tag that is there, but in other units.
    pub(super) fn other_units(&self, tag: &str, unit: &str) -> Option<String> {
        let units: Vec<&str> =
            self.tag(tag)?.units.keys().map(String::as_str).filter(|it| *it != unit).collect();
        (!units.is_empty()).then(|| {
            format!("{tag} is filed in {} and not in {unit}; it is left out", units.join(", "))
        })
    }
}

fn known(entries: &[Entry], as_of: NaiveDate) -> impl Iterator<Item = &Value> {
    entries.iter().filter_map(move |it| match it {
        Entry::Value(value) if value.filed <= as_of => Some(value),
        Entry::Value(_) | Entry::Odd(_) => None,
    })
}

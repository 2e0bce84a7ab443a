//! Kinds of states and fields that other tests do not use.
#![allow(unreachable_pub, reason = "the visibility of a state is also that of its update")]

use std::collections::BTreeMap;

use graph_core::{Overwrite, State};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    id: String,
    meta: Meta,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    number: u64,
}

impl Row {
    fn key(&self) -> String {
        self.id.clone()
    }
}

/// A state with kinds of fields that no other test uses.
#[derive(State, Clone, Debug, Default)]
#[state(version = 2)]
pub struct All {
    /// A field with a doc comment.
    plain: String,
    number: u8,
    optional: Option<u32>,
    nested: Option<BTreeMap<String, Vec<u8>>>,
    #[reduce(append)]
    list: Vec<String>,
    #[reduce(add)]
    sum: f64,
    #[reduce(min)]
    low: usize,
    #[reduce(upsert(meta.number: u64))]
    by_number: Vec<Row>,
    #[reduce(upsert(key()))]
    by_method: Vec<Row>,
    goto: u32,
}

#[derive(State, Clone, Debug, Default)]
struct Holder<T>
where
    T: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    value: T,
    #[reduce(append)]
    all: Vec<T>,
}

#[derive(State, Clone, Debug, Default)]
struct Empty {}

#[test]
fn states_may_have_fields_of_any_kind() {
    let _ = All::update()
        .plain("x")
        .number(3)
        .optional(4)
        .optional(None)
        .list(["a".to_owned()])
        .list(Overwrite(vec![]))
        .sum(1.5)
        .sum(Overwrite(0.0))
        .low(3)
        .by_number([Row::default()])
        .by_method([Row::default()])
        .goto(7);
    let _ = Holder::<u8>::update().value(3).all([1, 2]);
    let _ = Empty::update();
    let _ = Holder::<u8>::default().value;
}

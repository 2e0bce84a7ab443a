//! All kinds of states and fields.
#![allow(unreachable_pub, reason = "the visibility of a state is also that of its update")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use graph_core::{Overwrite, State, reduce::Reducer};
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

fn longest(current: &mut String, update: String) {
    if update.len() > current.len() {
        *current = update;
    }
}

#[derive(Debug)]
pub struct Twice;

impl Reducer<u32> for Twice {
    type Update = u32;
    fn fold(current: &mut u32, update: u32) {
        *current += 2 * update;
    }
    fn replace(current: &mut u32, update: u32) {
        *current = update;
    }
}

/// A state with all kinds of fields.
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
    #[reduce(append)]
    text: String,
    #[reduce(append)]
    shared: Arc<Vec<u32>>,
    #[reduce(append)]
    queue: VecDeque<u8>,
    #[reduce(add)]
    sum: f64,
    #[reduce(max)]
    high: i64,
    #[reduce(min)]
    low: usize,
    #[reduce(merge)]
    map: BTreeMap<String, u32>,
    #[reduce(merge)]
    hash: HashMap<String, u32>,
    #[reduce(merge)]
    set: BTreeSet<u32>,
    #[reduce(upsert(id))]
    rows: Vec<Row>,
    #[reduce(upsert(meta.number: u64))]
    by_number: Vec<Row>,
    #[reduce(upsert(key()))]
    by_method: Vec<Row>,
    #[reduce(any)]
    any: String,
    #[reduce(ephemeral)]
    once: String,
    #[reduce(untracked)]
    secret: String,
    #[reduce(topic)]
    topic: Vec<u32>,
    #[reduce(topic(keep))]
    kept: Vec<u32>,
    #[reduce(with = longest)]
    longest: String,
    #[reduce(Twice)]
    twice: u32,
    #[state(rename = "kind")]
    r#type: String,
    #[state(private)]
    scratch: u32,
    goto: u32,
}

#[derive(State, Clone, Debug, Default)]
struct Visibilities {
    #[state(input)]
    question: String,
    #[state(output)]
    answer: String,
    #[state(input, output, rename = "b")]
    both: u32,
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
fn states_may_have_any_field() {
    let _ = All::update()
        .plain("x")
        .number(3)
        .optional(4)
        .optional(None)
        .list(["a".to_owned()])
        .list(Overwrite(vec![]))
        .shared([1])
        .sum(1.5)
        .sum(Overwrite(0.0))
        .high(-3)
        .low(3)
        .set([1, 2])
        .rows([Row::default()])
        .twice(2_u32)
        .r#type("t")
        .goto(7);
    let _ = Visibilities::update().question("q").answer("a").both(1);
    let _ = Holder::<u8>::update().value(3).all([1, 2]);
    let _ = Empty::update();
    let Visibilities { question, answer, both } = Visibilities::default();
    let _ = (question, answer, both, Holder::<u8>::default().value);
}

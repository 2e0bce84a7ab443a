//! The data of the workloads, the same for all Rust programs. `peers/langgraph/workloads.py` and
//! `peers/langgraph-js/workloads.mjs` build the same data.
//!
//! The programs of the Rust peers, in another workspace, include this file.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Number of times that a joke is changed before its subgraph ends.
pub const BUMPS: usize = 10;

/// Number of steps of each thread in the workload with many threads.
pub const THREAD_STEPS: u64 = 10;

/// Number of threads in the stored workload with concurrent threads.
pub const STORED_THREADS: usize = 16;

/// Number of characters of a message of the stored loop.
pub const MESSAGE_SIZE: usize = 100;

/// Returns a subject of the fan-out to a subgraph: a list of 1,000 letters.
pub fn subject(index: usize) -> Vec<String> {
    let letter = char::from(b'a' + (index % 26) as u8).to_string();
    vec![letter; 1_000]
}

/// Returns the text of a subject as Python writes a list, with a suffix.
pub fn edit(subject: &[String]) -> String {
    let mut text = String::with_capacity(5 * subject.len() + 11);
    for (index, letter) in subject.iter().enumerate() {
        text.push_str(if index == 0 { "['" } else { ", '" });
        text.push_str(letter);
        text.push('\'');
    }
    text + "] - hohoho"
}

/// Returns the joke about an edited subject.
pub fn joke(subject: &str) -> String {
    format!("Joke about {subject}")
}

/// Returns the joke after one change.
pub fn bump(joke: &str) -> String {
    format!("{joke} a")
}

/// Returns whether the joke has been changed often enough.
pub fn is_bumped(joke: &str) -> bool {
    joke.ends_with(&" a".repeat(BUMPS))
}

/// Describes texts by their number and total length, for answers.
pub fn describe<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let (count, length) =
        texts.into_iter().fold((0, 0), |(n, sum), it| (n + 1, sum + it.as_ref().len()));
    format!("{count} texts of {length} characters")
}

/// Lengths of the texts of an agent. Its model and its tool return them without latency.
#[derive(Clone, Copy, Debug)]
pub enum Texts {
    /// Arguments of 3,600 characters and results of 36,180, as in LangGraph's benchmark.
    Long,
    /// Arguments of 36 characters and results of 54.
    Short,
}

impl Texts {
    fn repeat(self, text: &str, times: usize) -> String {
        match self {
            Self::Long => text.repeat(times),
            Self::Short => text.to_owned(),
        }
    }

    /// Returns the argument of a tool call.
    pub fn query(self, call: usize) -> String {
        self.repeat(&format!("{call:036}"), 100)
    }

    /// Returns the result of the tool.
    pub fn result(self, query: &str) -> String {
        self.repeat(&format!("result for query: {query}"), 10)
    }

    /// Returns the last message.
    pub fn answer(self) -> String {
        self.repeat("answer", 100)
    }
}

/// Returns the first message of the wide state of this size: nested maps of lists.
pub fn document(size: usize) -> Document {
    let (width, depth) = match size {
        300 => (5, 5),
        600 => (3, 5),
        _ => (3, 3),
    };
    let values: Vec<Value> = (0..5)
        .flat_map(|_| {
            [
                json!("hi?".repeat(10)),
                json!(true),
                json!(1),
                json!(6_327_816_386_138_u64),
                Value::Null,
            ]
        })
        .collect();
    let key = |it: usize| it.to_string().repeat(10);
    let inner: Map<String, Value> = (0..depth).map(|it| (key(it), json!(values))).collect();
    let inner = Shared(Arc::new(Value::Object(inner)));
    Shared(Arc::new((0..width).map(|it| (key(it), inner.clone())).collect()))
}

/// Returns a text that a node of the wide state writes.
pub fn wide_text(size: usize) -> String {
    "x".repeat(size)
}

/// Returns the answer of the wide state: the lengths of its lists.
pub fn wide_answer(
    messages: usize,
    events: usize,
    categorizations: usize,
    responses: usize,
) -> String {
    format!(
        "{messages} messages, {events} events, {categorizations} categorizations, {responses} responses"
    )
}

/// Computes for about a millisecond. The result depends on the seed.
pub fn spin(seed: u64) -> u64 {
    (0..1_000_000).fold(seed + 1, |x: u64, _| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        x ^ (x << 17)
    })
}

/// Returns a message of the stored loop: a number, padded to a size.
pub fn message(number: usize, size: usize) -> String {
    let mut text = number.to_string();
    // `format!` would pad the message one character at a time, which would distort the measurement.
    text.push_str(&" ".repeat(size.saturating_sub(text.len())));
    text
}

/// Returns a new thread name.
pub fn new_thread() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("thread-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the name of a node of the chain.
pub fn node_name(index: usize) -> String {
    format!("node{index:06}")
}

/// Returns the answer of the branches that compute: the sum of their results, modulo 2⁶⁴.
pub fn spin_answer(results: impl IntoIterator<Item = u64>) -> String {
    results.into_iter().fold(0, u64::wrapping_add).to_string()
}

/// Returns a new path for a database, in the directory that the harness names.
pub fn database_path() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("{}-{}.db", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    env::var_os("GRAPH_BENCH_DIR").map_or_else(env::temp_dir, PathBuf::from).join(name)
}

/// A value behind a pointer. Appending it to a list never copies the value, as in Python.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared<T>(pub Arc<T>);

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|it| Self(Arc::new(it)))
    }
}

/// A document of the wide state.
pub type Document = Shared<BTreeMap<String, Shared<Value>>>;

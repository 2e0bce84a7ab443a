//! States and fields whose types lack a trait that their use needs.

use graph_core::{END, Reducer, START, State, StateGraph};

/// The state of a graph must implement `State`.
fn not_a_state() {
    #[derive(Clone, Default)]
    struct Essay {
        topic: String,
    }
    let _ = StateGraph::<Essay>::new();
}

/// A state must implement `Clone`.
#[derive(State, Default)]
struct NotClone {
    topic: String,
}

#[derive(Clone, Default)]
struct Draft;

/// A field must be serialisable.
#[derive(State, Clone, Default)]
struct NotSerde {
    draft: Draft,
}

/// Reducers that do not support the type of the field.
#[derive(State, Clone, Default)]
struct Unsupported {
    #[reduce(append)]
    count: u32,
    #[reduce(merge)]
    list: Vec<String>,
}

struct NoReducer;

/// A custom reducer must implement `Reducer`.
#[derive(State, Clone, Default)]
struct NotImplemented {
    #[reduce(NoReducer)]
    topic: String,
    count: u32,
}

async fn write(essay: &NotImplemented) -> NotImplementedUpdate {
    NotImplemented::update().topic("rust").count(essay.count + 1)
}

fn use_of_invalid_state() {
    let graph = StateGraph::<NotImplemented>::new().node(write).edge(START, write);
    let _ = graph.edge(write, END).compile();
}

struct Longest;

impl Reducer<String> for Longest {
    type Update = String;

    fn fold(current: &mut String, update: String) {
        if update.len() > current.len() {
            *current = update;
        }
    }

    fn replace(current: &mut String, update: String) {
        *current = update;
    }
}

/// A custom reducer must support the type of the field.
#[derive(State, Clone, Default)]
struct OtherType {
    #[reduce(Longest)]
    topics: Vec<String>,
}

async fn update_other_type(_: &OtherType) -> OtherTypeUpdate {
    OtherType::update().topics(vec!["rust".to_owned()])
}

fn keep_longest(current: String, update: String) -> String {
    if update.len() > current.len() { update } else { current }
}

/// A reducer function changes the current value in place.
#[derive(State, Clone, Default)]
struct Signature {
    #[reduce(with = keep_longest)]
    topic: String,
}

fn main() {}

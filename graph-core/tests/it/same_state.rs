//! Subgraphs with the state of their parent, which write only what they changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use graph_core::{CompiledGraph, Context, NodeError, START, State, StateGraph, reduce::Reducer};
use serde::{Deserialize, Serialize};

use crate::support::thread_of;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    id: String,
    text: String,
}

fn note(id: &str, text: &str) -> Note {
    Note { id: id.to_owned(), text: text.to_owned() }
}

/// One field for each reducer whose difference is not the whole value.
#[derive(State, Clone, Debug, Default, PartialEq)]
struct All {
    plain: String,
    other: String,
    #[reduce(append)]
    list: Vec<String>,
    #[reduce(append)]
    shared: Arc<Vec<u32>>,
    #[reduce(append)]
    text: String,
    #[reduce(add)]
    sum: u64,
    #[reduce(add)]
    real: f64,
    #[reduce(max)]
    max: i64,
    #[reduce(merge)]
    map: BTreeMap<String, u32>,
    #[reduce(merge)]
    set: BTreeSet<u32>,
    #[reduce(upsert(id))]
    notes: Vec<Note>,
    #[reduce(with = join)]
    joined: String,
    #[state(private)]
    secret: String,
}

fn join(current: &mut String, update: String) {
    *current = [current.clone(), update].join("+");
}

fn child(name: &'static str) -> CompiledGraph<All> {
    let write = move |all: &All| {
        let update = All::update()
            .list([name.to_owned()])
            .shared(vec![7])
            .text(name)
            .sum(all.sum + 1)
            .real(0.5)
            .max(all.max + 1)
            .map(BTreeMap::from([(name.to_owned(), 1)]))
            .set(BTreeSet::from([all.list.len() as u32 + 10]))
            .notes([note(name, "new"), note("old", name)]);
        async move { update }
    };
    let again = move |_: &All| async move { All::update().list([format!("{name} again")]) };
    StateGraph::<All>::new()
        .name(name)
        .node_as("write", write)
        .node_as("again", again)
        .sequence(["write", "again"])
        .compile()
        .expect("the graph is valid")
}

fn input() -> All {
    All {
        list: vec!["input".into()],
        shared: Arc::new(vec![1, 2]),
        text: "in ".into(),
        sum: 10,
        real: 1.0,
        max: 3,
        map: BTreeMap::from([("input".to_owned(), 1)]),
        set: BTreeSet::from([1]),
        notes: vec![note("old", "input")],
        ..All::default()
    }
}

#[tokio::test]
async fn parallel_subgraphs_do_not_duplicate_their_input() {
    let (left, right) = (child("left"), child("right"));
    let graph = StateGraph::<All>::new()
        .node(&left)
        .node(&right)
        .edge(START, &left)
        .edge(START, &right)
        .compile()
        .unwrap();
    let done = graph.invoke(input(), ()).await.unwrap();
    assert_eq!(done.list, ["input", "left", "left again", "right", "right again"]);
    assert_eq!(*done.shared, [1, 2, 7, 7]);
    assert_eq!(done.text, "in leftright");
    // Each subgraph adds `sum + 1`, which is 11.
    assert_eq!((done.sum, done.real, done.max), (32, 2.0, 4));
    assert_eq!(done.map.keys().collect::<Vec<_>>(), ["input", "left", "right"]);
    assert_eq!(done.set, BTreeSet::from([1, 11]));
    assert_eq!(done.notes, [note("old", "right"), note("left", "new"), note("right", "new")]);
    assert_eq!((done.plain.as_str(), done.joined.as_str()), ("", "+"));
}

#[tokio::test]
async fn unchanged_fields_are_not_written() {
    let same = StateGraph::<All>::new()
        .node_as("same", async |all: &All| All::update().plain(all.plain.clone()))
        .edge(START, "same")
        .compile()
        .unwrap();
    let graph = StateGraph::<All>::new()
        .node_as("a", &same)
        .node_as("b", async |_: &All| All::update().plain("b"))
        .node_as("secret", async |_: &All| All::update().secret("kept"))
        .edge(START, "secret")
        .edge("secret", "a")
        .edge("secret", "b")
        .compile()
        .unwrap();
    // Both nodes would conflict on the plain field if the subgraph wrote it.
    let done = graph.invoke(All { plain: "input".into(), ..All::default() }, ()).await.unwrap();
    assert_eq!((done.plain.as_str(), done.secret.as_str()), ("b", "kept"));
}

#[tokio::test]
async fn an_overwritten_list_replaces_the_list_of_the_parent() {
    let clear = StateGraph::<All>::new()
        .node_as("clear", async |_: &All| All::update().list(graph_core::Overwrite(vec![])))
        .edge(START, "clear")
        .compile()
        .unwrap();
    let graph = StateGraph::<All>::new().node_as("a", &clear).edge(START, "a").compile().unwrap();
    assert!(graph.invoke(input(), ()).await.unwrap().list.is_empty());
}

#[tokio::test]
async fn a_resumed_subgraph_writes_the_changes_of_all_its_runs() {
    async fn ask(_: &All, cx: &Context) -> Result<AllUpdate, NodeError> {
        Ok(All::update().list([cx.interrupt::<String>("which?")?]))
    }
    let inner = StateGraph::<All>::new()
        .name("inner")
        .node_as("first", async |_: &All| All::update().list(["first".to_owned()]))
        .node(ask)
        .edge(START, "first")
        .edge("first", ask)
        .compile()
        .unwrap();
    let graph = StateGraph::<All>::new().node(&inner).edge(START, &inner);
    let thread = thread_of(graph, &());
    let outcome = thread.run(input()).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, "which?");
    let done = thread.resume("answer").await.unwrap().into_state();
    assert_eq!(done.list, ["input", "first", "answer"]);
}

#[test]
fn a_custom_reducer_without_difference_overwrites() {
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
    #[derive(State, Clone, Default)]
    struct Title {
        #[reduce(Longest)]
        title: String,
    }
    let (before, after) = (Title { title: "long".into() }, Title { title: "x".into() });
    let update = after.update_since(&before).unwrap();
    let writes = after.writes(&update).unwrap();
    assert_eq!((writes[0].value.as_str(), writes[0].overwrite), (Some("x"), true));
    assert!(after.writes(&after.update_since(&after).unwrap()).unwrap().is_empty());
}

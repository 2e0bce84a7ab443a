//! Reducers: several writes in one step to each kind of field, in memory and through a checkpoint.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use graph_core::{Overwrite, RunError, START, State, StateGraph, Thread, reduce::Reducer};
use serde::{Deserialize, Serialize};

use crate::support::thread_of;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    id: u32,
    text: String,
}

fn row(id: u32, text: &str) -> Row {
    Row { id, text: text.to_owned() }
}

fn longest(current: &mut String, update: String) {
    if update.len() > current.len() {
        *current = update;
    }
}

/// Sums optional counts.
struct Count;

impl Reducer<usize> for Count {
    type Update = Option<usize>;
    fn fold(current: &mut usize, update: Option<usize>) {
        *current += update.unwrap_or(0);
    }
    fn replace(current: &mut usize, update: Option<usize>) {
        *current = update.unwrap_or(0);
    }
}

#[derive(State, Clone, Debug, Default, PartialEq)]
struct All {
    #[reduce(append)]
    list: Vec<u32>,
    #[reduce(append)]
    text: String,
    #[reduce(append)]
    shared: Arc<Vec<u32>>,
    #[reduce(append)]
    queue: VecDeque<u32>,
    #[reduce(add)]
    sum: u32,
    #[reduce(max)]
    high: i64,
    #[reduce(min)]
    low: i64,
    #[reduce(merge)]
    map: BTreeMap<String, u32>,
    #[reduce(merge)]
    hash: HashMap<String, u32>,
    #[reduce(merge)]
    set: BTreeSet<u32>,
    #[reduce(merge)]
    hash_set: HashSet<u32>,
    #[reduce(upsert(id: u32))]
    rows: Vec<Row>,
    #[reduce(with = longest)]
    longest: String,
    #[reduce(Count)]
    count: usize,
    #[reduce(topic(keep))]
    kept: Vec<u32>,
    last: String,
}

fn map<M: FromIterator<(String, u32)>, const N: usize>(entries: [(&str, u32); N]) -> M {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

async fn left(_: &All) -> AllUpdate {
    All::update()
        .list([1])
        .text("one ")
        .shared([1])
        .queue([1])
        .sum(1)
        .high(5)
        .low(-1)
        .map(map::<BTreeMap<_, _>, 2>([("a", 1), ("b", 1)]))
        .hash(map::<HashMap<_, _>, 2>([("a", 1), ("b", 1)]))
        .set([1, 2])
        .hash_set([1, 2])
        .rows([row(1, "left"), row(2, "left")])
        .longest("longer")
        .count(2)
        .kept([1])
        .last("left")
}

async fn right(_: &All) -> AllUpdate {
    All::update()
        .list([2])
        .text("two ")
        .shared([2])
        .queue([2])
        .sum(2)
        .high(3)
        .low(-3)
        .map(map::<BTreeMap<_, _>, 2>([("b", 2), ("c", 2)]))
        .hash(map::<HashMap<_, _>, 2>([("b", 2), ("c", 2)]))
        .set([2, 3])
        .hash_set([2, 3])
        .rows([row(2, "right"), row(3, "right")])
        .longest("short")
        .count(Some(3))
        .kept([2])
}

fn both() -> Thread<All> {
    let graph =
        StateGraph::<All>::new().node(left).node(right).edge(START, left).edge(START, right);
    thread_of(graph, &())
}

fn folded() -> All {
    All {
        list: vec![1, 2],
        text: "one two ".into(),
        shared: Arc::new(vec![1, 2]),
        queue: [1, 2].into(),
        sum: 3,
        high: 5,
        low: -3,
        map: map([("a", 1), ("b", 2), ("c", 2)]),
        hash: map([("a", 1), ("b", 2), ("c", 2)]),
        set: [1, 2, 3].into(),
        hash_set: [1, 2, 3].into(),
        rows: vec![row(1, "left"), row(2, "right"), row(3, "right")],
        longest: "longer".into(),
        count: 5,
        kept: vec![1, 2],
        last: "left".into(),
    }
}

#[tokio::test]
async fn every_reducer_folds_in_task_order() {
    let outcome = both().run(All::empty_input()).await.unwrap();
    assert_eq!(outcome.state(), &folded());
}

#[tokio::test]
async fn folded_values_round_trip_through_a_checkpoint() {
    let thread = both();
    for _ in 0..3 {
        let outcome = thread.run(All::empty_input()).await.unwrap();
        let stored = thread.state().await.unwrap().unwrap().values;
        assert_eq!(&stored, outcome.state());
    }
    let state = thread.state().await.unwrap().unwrap().values;
    assert_eq!((state.list.len(), state.sum, state.count, state.rows.len()), (6, 9, 15, 3));
}

impl All {
    /// Returns an input that writes nothing.
    fn empty_input() -> graph_core::Input<Self> {
        graph_core::Input::update(Self::update())
    }
}

#[tokio::test]
async fn input_is_folded_like_other_writes() {
    let outcome = both().run(folded()).await.unwrap();
    let state = outcome.state();
    assert_eq!(state.list, [1, 2, 1, 2]);
    assert_eq!((state.sum, state.count), (6, 5 + 5));
    assert_eq!(state.rows.len(), 3);
}

#[derive(State, Clone, Debug, Default)]
struct Board {
    #[reduce(append)]
    list: Vec<u32>,
    #[reduce(merge)]
    map: BTreeMap<String, u32>,
}

async fn add(_: &Board) -> BoardUpdate {
    Board::update().list([1]).map(map::<BTreeMap<_, _>, 1>([("a", 1)]))
}

async fn wipe(_: &Board) -> BoardUpdate {
    Board::update().list(Overwrite(vec![9])).map(Overwrite(BTreeMap::new()))
}

fn board(nodes: [&'static str; 2]) -> Thread<Board> {
    let with_node = |graph: StateGraph<Board>, node| match node {
        "a" | "c" => graph.node_as(node, add).edge(START, node),
        _ => graph.node_as(node, wipe).edge(START, node),
    };
    let graph = nodes.into_iter().fold(StateGraph::new(), with_node);
    thread_of(graph, &())
}

#[tokio::test]
async fn an_overwrite_replaces_parallel_writes() {
    for nodes in [["a", "b"], ["b", "c"]] {
        let thread = board(nodes);
        let input = Board { list: vec![7], map: map([("x", 1)]) };
        let outcome = thread.run(input).await.unwrap();
        assert_eq!(outcome.state().list, [9], "{nodes:?}");
        assert!(outcome.state().map.is_empty());
        let stored = thread.state().await.unwrap().unwrap().values;
        assert_eq!((stored.list, stored.map.len()), (vec![9], 0));
    }
}

#[tokio::test]
async fn two_overwrites_are_a_conflict() {
    let error = board(["b", "d"]).run(Board::default()).await.unwrap_err();
    let RunError::Conflict(conflict) = error else { panic!("{error}") };
    assert!(conflict.overwrites);
    let writers = (conflict.field.as_str(), conflict.first.as_str(), conflict.second.as_str());
    assert_eq!(writers, ("list", "b", "d"));
}

/// A state with step-scoped and untracked fields.
#[derive(State, Clone, Debug, Default)]
struct Brief {
    #[reduce(ephemeral)]
    once: String,
    #[reduce(any)]
    any: String,
    #[reduce(topic)]
    topic: Vec<u32>,
    #[reduce(topic(keep))]
    kept: Vec<u32>,
    #[reduce(untracked)]
    secret: String,
    #[reduce(append)]
    seen: Vec<String>,
}

async fn say(_: &Brief) -> BriefUpdate {
    Brief::update().once("once").any("first").topic([1]).kept([1]).secret("s")
}

async fn say_too(_: &Brief) -> BriefUpdate {
    Brief::update().any("second").topic([2]).kept([2])
}

async fn look(it: &Brief) -> BriefUpdate {
    let Brief { once, any, topic, kept, secret, .. } = it;
    Brief::update().seen([format!("{once}/{any}/{topic:?}/{kept:?}/{secret}")])
}

fn brief() -> StateGraph<Brief> {
    StateGraph::<Brief>::new()
        .node(say)
        .node(say_too)
        .node_as("next", look)
        .node_as("later", look)
        .edge(START, say)
        .edge(START, say_too)
        .edge(say, "next")
        .edge("next", "later")
}

#[tokio::test]
async fn step_scoped_values_are_cleared_after_the_next_step() {
    let state = brief().compile().unwrap().invoke(Brief::default(), ()).await.unwrap();
    assert_eq!(state.seen, ["once/second/[1, 2]/[1, 2]/s", "//[]/[1, 2]/s"]);
    assert_eq!((state.once.as_str(), state.topic.len()), ("", 0));
}

#[tokio::test]
async fn checkpoints_store_step_scoped_but_not_untracked_fields() {
    let graph = brief().stop_before(graph_core::Stops::at(["next", "later"]));
    let thread = thread_of(graph, &());
    assert!(!thread.run(Brief::default()).await.unwrap().is_done());
    let state = thread.state().await.unwrap().unwrap().values;
    assert_eq!(
        (state.once.as_str(), &state.topic[..], state.secret.as_str()),
        ("once", &[1, 2][..], "")
    );
    assert!(!thread.proceed().await.unwrap().is_done());
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state().seen, ["once/second/[1, 2]/[1, 2]/", "//[]/[1, 2]/"]);
}

#[tokio::test]
async fn an_ephemeral_field_accepts_one_write_per_step() {
    let graph = StateGraph::<Brief>::new()
        .node_as("a", say)
        .node_as("b", say)
        .edge(START, "a")
        .edge(START, "b")
        .compile()
        .unwrap();
    let error = graph.invoke(Brief::default(), ()).await.unwrap_err();
    let RunError::Conflict(conflict) = error else { panic!("{error}") };
    assert_eq!(conflict.field, "once");
}

//! States: input and output fields, renamed fields, many fields, generic fields.

use std::fmt::Debug;

use graph_core::{
    EventKind, MemorySaver, RunError, RunOptions, START, State, StateGraph, Stops, StreamMode,
    checkpoint::{Checkpointer, Lookup},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::support::thread_of;

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Scoped {
    #[state(input)]
    question: String,
    #[state(output)]
    answer: String,
    #[state(private)]
    scratch: String,
    #[state(input, output)]
    both: u32,
}

async fn think(it: &Scoped) -> ScopedUpdate {
    let seen = format!("{}/{}/{}", it.question, it.answer, it.scratch);
    Scoped::update().answer(seen).scratch("thought")
}

#[tokio::test]
async fn only_input_fields_are_taken_from_the_input() {
    let graph = StateGraph::<Scoped>::new().node(think).edge(START, think).compile().unwrap();
    let input = Scoped { question: "q".into(), answer: "a".into(), scratch: "s".into(), both: 1 };
    let state = graph.invoke(input, ()).await.unwrap();
    assert_eq!(state.answer, "q//");
    assert_eq!(state.both, 1);
}

#[tokio::test]
async fn output_fields_can_be_streamed_separately() {
    let graph = StateGraph::<Scoped>::new().node(think).edge(START, think).compile().unwrap();
    let options = RunOptions::new().stream_modes([StreamMode::Values]);
    let input = Scoped { question: "q".into(), both: 1, ..Scoped::default() };
    let mut stream = graph.with(options).stream(input, ());
    let mut last = None;
    while let Some(event) = stream.next().await {
        if let EventKind::Values(values) = event.kind {
            last = Some(values.output_json());
        }
    }
    assert_eq!(last, Some(json!({"answer": "q//", "both": 1})));
}

#[tokio::test]
async fn private_fields_are_kept_between_runs() {
    let graph = StateGraph::<Scoped>::new().node(think).edge(START, think);
    let thread = thread_of(graph, &());
    assert!(thread.run(Scoped::default()).await.unwrap().is_done());
    let outcome = thread.run(Scoped::update().question("").both(0_u32)).await.unwrap();
    assert_eq!(outcome.state().answer, "////thought", "the first answer was `//`");
}

#[derive(State, Clone, Debug, Default)]
struct Named {
    #[state(rename = "kind")]
    r#type: String,
    #[state(rename = "n-of-items")]
    count: u32,
}

async fn name(_: &Named) -> NamedUpdate {
    Named::update().r#type("x").count(3)
}

#[tokio::test]
async fn a_renamed_field_is_stored_and_reported_by_its_new_name() {
    let saver = MemorySaver::new();
    let graph = StateGraph::<Named>::new()
        .node_as("a", name)
        .node_as("b", name)
        .edge(START, "a")
        .edge("a", "b")
        .checkpointer(saver.clone())
        .compile()
        .unwrap();
    let thread = graph.thread("t", ());
    assert!(thread.run(Named::default()).await.unwrap().is_done());
    let stored = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap().values;
    assert_eq!(serde_json::Value::Object(stored), json!({"kind": "x", "n-of-items": 3}));
    let state = thread.state().await.unwrap().unwrap().values;
    assert_eq!((state.r#type.as_str(), state.count), ("x", 3));

    let beside = StateGraph::<Named>::new()
        .node_as("a", name)
        .node_as("b", name)
        .edge(START, "a")
        .edge(START, "b")
        .compile()
        .unwrap();
    let error = beside.invoke(Named::default(), ()).await.unwrap_err();
    let RunError::Conflict(conflict) = error else { panic!("{error}") };
    assert_eq!(conflict.field, "kind");
}

macro_rules! wide {
    ($($field:ident)*) => {
        /// A state with more than 64 fields, so that its field sets need more than one machine word.
        #[derive(State, Clone, Debug, Default, PartialEq)]
        struct Wide {
            $($field: u32,)*
            #[reduce(append)]
            list: Vec<u32>,
            #[reduce(ephemeral)]
            once: u32,
        }
    };
}

wide! {
    f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24 f25 f26
    f27 f28 f29 f30 f31 f32 f33 f34 f35 f36 f37 f38 f39 f40 f41 f42 f43 f44 f45 f46 f47 f48 f49 f50 f51
    f52 f53 f54 f55 f56 f57 f58 f59 f60 f61 f62 f63 f64 f65 f66 f67 f68 f69
}

async fn low(_: &Wide) -> WideUpdate {
    Wide::update().f0(1).f63(63).list([1]).once(5)
}

async fn high(_: &Wide) -> WideUpdate {
    Wide::update().f64(64).f69(69).list([2])
}

async fn check(wide: &Wide) -> WideUpdate {
    assert_eq!((wide.f69, wide.once), (69, 5));
    Wide::update().f1(wide.f63 + wide.f64)
}

#[tokio::test]
async fn a_state_can_have_more_than_64_fields() {
    let graph = StateGraph::<Wide>::new()
        .node(low)
        .node(high)
        .node(check)
        .edge(START, low)
        .edge(START, high)
        .join((low, high), check)
        .stop_before(Stops::at(["check"]));
    let thread = thread_of(graph, &());
    assert!(!thread.run(Wide::default()).await.unwrap().is_done());
    let outcome = thread.proceed().await.unwrap();
    let expect =
        Wide { f0: 1, f1: 127, f63: 63, f64: 64, f69: 69, list: vec![2, 1], ..Wide::default() };
    assert_eq!(outcome.state(), &expect);
    assert_eq!(thread.state().await.unwrap().unwrap().values, expect);
}

#[tokio::test]
async fn a_conflict_beyond_the_64th_field_is_reported() {
    let graph = StateGraph::<Wide>::new()
        .node_as("one", high)
        .node_as("two", high)
        .edge(START, "one")
        .edge(START, "two")
        .compile()
        .unwrap();
    let error = graph.invoke(Wide::default(), ()).await.unwrap_err();
    let RunError::Conflict(conflict) = error else { panic!("{error}") };
    assert_eq!(conflict.field, "f64");
}

/// The trait bounds of a generic field.
trait Value: Clone + Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<T: Clone + Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static> Value
    for T
{
}

#[derive(State, Clone, Debug, Default)]
struct Holder<T: Clone + Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static> {
    value: T,
    #[reduce(append)]
    all: Vec<T>,
}

async fn append_value<T: Value>(holder: &Holder<T>) -> HolderUpdate<T> {
    Holder::update().all(vec![holder.value.clone()])
}

async fn appended_values<T: Value>(value: T) -> Vec<T> {
    let graph =
        StateGraph::<Holder<T>>::new().node(append_value::<T>).edge(START, append_value::<T>);
    let thread = thread_of(graph, &());
    for _ in 0..2 {
        let input = Holder { value: value.clone(), all: vec![] }.into_update();
        assert!(thread.run(input).await.expect("no node fails").is_done());
    }
    thread.state().await.expect("the thread is readable").expect("the thread has run").values.all
}

#[tokio::test]
async fn a_state_can_be_generic() {
    assert_eq!(appended_values(7_u8).await, [7, 7]);
    assert_eq!(appended_values("x".to_owned()).await, ["x", "x"]);
}

#[tokio::test]
async fn a_graph_can_have_an_initial_state() {
    let initial = Scoped { scratch: "given".into(), ..Scoped::default() };
    let graph = StateGraph::<Scoped>::with_initial_state(initial)
        .node(think)
        .edge(START, think)
        .compile()
        .unwrap();
    let state = graph.invoke(Scoped::default(), ()).await.unwrap();
    assert_eq!(state.answer, "//given");
}

#[tokio::test]
async fn an_update_as_input_writes_only_its_fields() {
    let graph = StateGraph::<Named>::new().node_as("a", async |_: &Named| ()).edge(START, "a");
    let thread = thread_of(graph, &());
    assert!(thread.run(Named { r#type: "x".into(), count: 3 }).await.unwrap().is_done());
    let input = graph_core::Input::update(Named::update().count(4));
    let state = thread.run(input).await.unwrap().into_state();
    assert_eq!((state.r#type.as_str(), state.count), ("x", 4));
}

//! Async closures as nodes and branches, and named nodes as ends of edges.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use graph_core::{Context, Goto, NodeError, NodeExt, START, StateGraph, goto, named, send};

use crate::support::{Item, Probe, Trail, graph, thread_of, trail, with_nodes};

/// A client that a closure captures and that its future borrows across an await.
#[derive(Clone)]
struct Client(Arc<AtomicU32>);

impl Client {
    async fn get(&self) -> u32 {
        tokio::task::yield_now().await;
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[tokio::test]
async fn an_async_closure_borrows_its_captured_variables() {
    let client = Client(Arc::default());
    let fetch = named("fetch", async move |_: &Trail| {
        let number = client.get().await;
        Trail::update().path([format!("{number} of {}", client.get().await)])
    });
    let graph = StateGraph::<Trail>::new().node(&fetch).edge(START, &fetch).compile().unwrap();
    assert_eq!(graph.invoke(Trail::default(), ()).await.unwrap(), trail(["0 of 1"]));
}

#[tokio::test]
async fn named_closures_are_targets_of_edges_gotos_and_sends() {
    let (prefix, other) = ("item ".to_owned(), "after".to_owned());
    let work = named("work", async move |item: Item, _: &Context<Probe>| {
        Trail::update().path([format!("{prefix}{}", item.0)])
    });
    let last = named(
        "last",
        (async move |_: &Trail| Trail::update().path([other.as_str().to_owned()])).retry(2),
    );
    let gotos = [send(&work, Item(1)), send(&work, Item(2))];
    let fork = named("fork", async move |_: &Trail| Ok::<_, NodeError>(gotos.to_vec()));
    let graph = graph()
        .node(&work)
        .node(&last)
        .node(&fork)
        .edge(START, &fork)
        .edge(&work, &last)
        .compile()
        .unwrap();
    let done = graph.invoke(Trail::default(), Probe::default()).await.unwrap();
    assert_eq!(done, trail(["item 1", "item 2", "after"]));
    assert_eq!(
        format!("{:?}", goto(&named("x", async |_: &Trail| ()))),
        format!("{:?}", Goto::node("x"))
    );
}

#[tokio::test]
async fn an_async_branch_is_not_called_again_after_a_resume() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let choose = async move |state: &Trail, cx: &Context<Probe>| {
        count.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        assert_eq!((state.path.last().map(String::as_str), cx.node()), (Some("a"), "a"));
        Ok::<_, NodeError>(Goto::node("c"))
    };
    let graph = with_nodes(["a", "b", "c"]).edge(START, "a").edge(START, "b").branch("a", choose);
    let probe = Probe::default();
    let thread = thread_of(graph, &probe);
    // Node `a` and its branch complete in the same step in which `b` fails.
    probe.fail_next("b", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), 1);

    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "c"]));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_async_branch_of_start_sees_the_input() {
    let graph = with_nodes(["a", "b"])
        .branch(START, async |state: &Trail| Goto::node(state.note.clone()))
        .compile()
        .unwrap();
    let input = Trail { note: "b".into(), ..Trail::default() };
    let done = graph.invoke(input, Probe::default()).await.unwrap();
    assert_eq!(done.path, ["b"]);
}

#[tokio::test]
async fn a_failing_async_branch_is_retried_with_its_node() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let choose = async move |_: &Trail| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Err(NodeError::from("the model is overloaded")),
        _ => Ok(Goto::end()),
    };
    let policy = graph_core::RetryPolicy::max_attempts(2).backoff(std::time::Duration::ZERO, 1.0);
    let write = named(
        "write",
        (async |_: &Trail| Trail::update().note("written")).retry(policy.without_jitter()),
    );
    let graph = StateGraph::<Trail>::new()
        .node(&write)
        .edge(START, &write)
        .branch(&write, choose)
        .compile()
        .unwrap();
    assert_eq!(graph.invoke(Trail::default(), ()).await.unwrap().note, "written");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_panicking_async_branch_fails_the_node() {
    let graph = StateGraph::<Trail>::new()
        .node_as("a", async |_: &Trail| ())
        .edge(START, "a")
        .branch("a", async |state: &Trail| -> Goto { panic!("no route for {:?}", state.path) })
        .compile()
        .unwrap();
    let error = graph.invoke(Trail::default(), ()).await.unwrap_err();
    assert_eq!(error.to_string(), "node `a` failed in step 1: the node panicked: no route for []");
}

#[tokio::test]
async fn the_current_context_follows_the_running_node() {
    #[derive(Debug)]
    struct OtherDeps;

    async fn names() -> Vec<String> {
        tokio::task::yield_now().await;
        let any = Context::current_any().map(|it| it.node().to_owned());
        let typed = Context::<Probe>::current().map(|it| it.node().to_owned());
        let other = Context::<OtherDeps>::current().map(|it| it.node().to_owned());
        any.into_iter().chain(typed).chain(other).collect()
    }
    async fn outer(
        _: &Trail,
        cx: &Context<Probe>,
    ) -> Result<crate::support::TrailUpdate, NodeError> {
        let inner = StateGraph::<Trail, Probe>::new()
            .node_as("inner", async |_: &Trail| Trail::update().path(names().await))
            .edge(START, "inner")
            .compile()?;
        let before = names().await;
        let nested = cx.run_graph(&inner, graph_core::Persistence::None, Trail::default()).await?;
        let nested = nested.map(|it| it.path).unwrap_or_default();
        Ok(Trail::update().path([before, nested, names().await].concat()))
    }
    let graph = graph().node(outer).edge(START, outer).compile().unwrap();
    let done = graph.invoke(Trail::default(), Probe::default()).await.unwrap();
    assert_eq!(done, trail(["outer", "outer", "inner", "inner", "outer", "outer"]));
    assert!(Context::current_any().is_none());
}

//! Mistakes that are easy to make: each fails with an error that names the fix, or has no effect.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use graph_core::{
    BuildProblem, Checkpointer, CompiledGraph, Context, Durability, Goto, HistoryFilter, Input,
    MemoryCache, MemorySaver, NodeError, RunError, RunOptions, START, State, StateGraph, Stops,
    cache::Cache, checkpoint::Source, store::InMemoryStore, store::Store, store::StoreError,
};
use serde_json::json;

use crate::support::{Probe, Trail, chain, diamond, graph, path_of, thread_of, trail};

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Chat {
    language: String,
    #[reduce(append)]
    lines: Vec<String>,
}

fn chat() -> CompiledGraph<Chat> {
    let reply = async |chat: &Chat| Chat::update().lines([format!("reply in {}", chat.language)]);
    StateGraph::<Chat>::new()
        .node_as("reply", reply)
        .edge(START, "reply")
        .checkpointer(MemorySaver::new())
        .compile()
        .expect("the graph is valid")
}

#[tokio::test]
async fn a_whole_state_does_not_reset_the_fields_of_a_thread() {
    let thread = chat().thread("t", ());
    let first = Chat { language: "French".into(), lines: vec!["hello".into()] };
    assert!(thread.run(first).await.unwrap().is_done());

    let second = Chat { lines: vec!["again".into()], ..Chat::default() };
    let error = thread.run(second).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "thread `t` already has a state, and a whole state as input would reset its fields without a reducer \
         (language); pass an update with only the fields to change, as in `thread.run(State::update().language(..))`"
    );

    let outcome = thread.run(Chat::update().lines(["again".to_owned()])).await.unwrap();
    let lines = ["hello", "reply in French", "again", "reply in French"];
    assert_eq!(outcome.state().lines, lines);
}

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Log {
    #[reduce(append)]
    lines: Vec<String>,
}

#[tokio::test]
async fn a_whole_state_is_an_update_if_all_its_fields_have_reducers() {
    let graph = StateGraph::<Log>::new().node_as("end", async |_: &Log| ()).edge(START, "end");
    let thread = thread_of(graph, &());
    for line in ["a", "b"] {
        assert!(thread.run(Log { lines: vec![line.into()] }).await.unwrap().is_done());
    }
    assert_eq!(thread.state().await.unwrap().unwrap().values.lines, ["a", "b"]);
}

#[tokio::test]
async fn debug_shows_the_message_and_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot fetch the page")]
    struct FetchError(#[source] std::io::Error);

    let graph = StateGraph::<Trail>::new()
        .node_as("fetch", async |_: &Trail| {
            Err::<(), _>(FetchError(std::io::Error::other("connection refused")))
        })
        .edge(START, "fetch")
        .compile()
        .unwrap();
    let error = graph.invoke(Trail::default(), ()).await.unwrap_err();
    assert_eq!(
        format!("{error:?}"),
        "node `fetch` failed in step 1: cannot fetch the page\n\ncaused by:\n  connection refused"
    );
    let error = NodeError::from(FetchError(std::io::Error::other("connection refused")));
    assert_eq!(format!("{error:?}"), "cannot fetch the page\n\ncaused by:\n  connection refused");
    let cause = FetchError(std::io::Error::other("connection refused"));
    assert_eq!(
        format!("{:?}", StoreError::backend(cause)),
        "the store's back end failed\n\ncaused by:\n  cannot fetch the page\n  connection refused"
    );
}

#[test]
fn a_misspelt_first_node_is_the_only_problem() {
    let error = chain(["write"]).edge("wrote", "write").compile().unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error:?}");
    let entry = graph().node_as("write", async |_: &Trail| ()).edge(START, "wrote");
    let error = entry.compile().unwrap_err();
    assert!(matches!(error.problems[..], [BuildProblem::UnknownNode { .. }]), "{error}");
    assert!(error.to_string().contains("`wrote` is not a node (did you mean `write`?)"), "{error}");
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = graph().node_as("write", async |_: &Trail| ()).compile().unwrap_err();
    assert_eq!(error.problems, [BuildProblem::NoEntry]);
}

#[test]
fn a_node_that_was_not_added_is_reported_with_the_call_that_adds_it() {
    async fn greet(_: &Chat) {}
    let text = |it: StateGraph<Chat>| it.compile().unwrap_err().problems[0].to_string();
    assert_eq!(
        text(StateGraph::new().edge(START, greet)),
        "`__start__` leads to `greet`, but `greet` is not a node; add it with `.node(greet)`; nodes are: none"
    );
    assert_eq!(
        text(StateGraph::new().node(greet).edge(START, "ask-user")),
        "`__start__` leads to `ask-user`, but `ask-user` is not a node; add it with `.node_as(\"ask-user\", ..)`; \
         nodes are: greet"
    );
}

#[tokio::test]
async fn a_run_cannot_stop_at_a_node_that_the_graph_lacks() {
    let graph = chain(["write", "review"]).compile().unwrap();
    for options in [
        RunOptions::new().stop_before(Stops::at(["reviw"])),
        RunOptions::new().stop_after(Stops::at(["write", "reviw"])),
    ] {
        let graph = graph.clone().with(options);
        let error = graph.run(Trail::default(), Probe::default()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot stop at `reviw`: it is not a node of graph `graph` (did you mean `review`?); nodes are: review, \
             write; to stop inside a subgraph, use `StateGraph::stop_before` or `StateGraph::stop_after` of that graph"
        );
    }
    let graph = graph.with(RunOptions::new().stop_before(Stops::at(["__start__"])));
    let error = graph.run(Trail::default(), Probe::default()).await.unwrap_err();
    assert!(matches!(error, RunError::UnknownStop { .. }), "{error}");
}

#[tokio::test]
async fn a_thread_whose_stream_was_dropped_can_continue_immediately() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let graph = chain(["a", "b"]).checkpointer(MemorySaver::new()).compile().unwrap();
        for round in 0..20 {
            let options = RunOptions::new().durability(durability);
            let thread = graph.thread(format!("t{round}"), Probe::default()).with_options(options);
            let mut stream = thread.stream(Trail::default());
            // The first event arrives while checkpoints are still being stored.
            assert!(stream.next().await.is_some());
            drop(stream);
            let outcome = thread.start_or_continue(Trail::default()).await;
            assert_eq!(outcome.unwrap().state(), &trail(["a", "b"]), "{durability:?}");
        }
    }
}

#[tokio::test]
async fn resuming_a_thread_that_does_not_exist_is_rejected() {
    let thread = chat().thread("t", ());
    let error = thread.resume("yes").await.unwrap_err();
    let message = "cannot resume: thread `t` has no checkpoint; start it with `Thread::run`";
    assert_eq!(error.to_string(), message);
    assert!(thread.state().await.unwrap().is_none(), "nothing was run");
}

#[tokio::test]
async fn untracked_fields_need_no_serde() {
    #[derive(Clone, Default, Debug)]
    struct Connection(u32);

    #[derive(State, Clone, Debug, Default)]
    struct Job {
        #[reduce(untracked)]
        connection: Connection,
        #[reduce(untracked)]
        shown: u32,
        done: u32,
    }
    let graph = StateGraph::<Job>::new()
        .node_as("open", async |_: &Job| Job::update().connection(Connection(7)).shown(1))
        .node_as("use", async |job: &Job| Job::update().done(job.connection.0))
        .sequence(["open", "use"]);
    let outcome = thread_of(graph, &()).run(Job::default()).await.unwrap();
    assert_eq!((outcome.state().done, outcome.state().connection.0), (7, 7));
    let job = outcome.into_state();
    // A serialisable value appears in streams.
    let shown = job.fields().iter().position(|it| it.name == "shown").unwrap();
    assert_eq!((job.value(shown).unwrap(), job.value(0).unwrap()), (Some(json!(1)), None));
}

#[tokio::test]
async fn the_size_limit_applies_to_resume_values_interrupts_and_payloads() {
    let long = "x".repeat(2_000);
    let text = long.clone();
    let graph = graph()
        .node_as("ask", async |_: &Trail, cx: &Context<Probe>| {
            Ok::<_, NodeError>(Trail::update().path([cx.interrupt::<String>("short")?]))
        })
        .node_as("big question", async move |_: &Trail, cx: &Context<Probe>| {
            cx.interrupt::<String>(text.clone()).map(|_| ())
        })
        .node_as("payload", {
            let text = long.clone();
            async move |_: &Trail| Goto::send("work", json!(text))
        })
        .node_as("work", async |_: String| ())
        .branch(START, |state: &Trail| Goto::node(state.note.clone()))
        .checkpointer(MemorySaver::new())
        .max_stored_bytes(1_000)
        .compile()
        .unwrap();
    let start = |node: &str| Trail::update().note(node);
    let thread = |name: &str| graph.thread(name, Probe::default());
    for node in ["big question", "payload"] {
        let error = thread(node).run(start(node)).await.unwrap_err().to_string();
        assert!(error.contains("more than the limit of 1000"), "{node}: {error}");
    }
    assert_eq!(thread("ask").run(start("ask")).await.unwrap().interrupts().len(), 1);
    let error = thread("ask").resume(&long).await.unwrap_err().to_string();
    assert!(error.contains("more than the limit of 1000"), "{error}");
    assert_eq!(thread("ask").resume("fits").await.unwrap().state().path, ["fits"]);
}

#[tokio::test]
async fn a_repeated_start_with_the_same_run_id_applies_its_input_once() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let saver = MemorySaver::new();
        let graph = diamond().checkpointer(saver.clone()).compile().unwrap();
        let options = RunOptions::new().run_id("order-7").durability(durability);
        let thread = graph.thread("t", probe.clone()).with_options(options);
        probe.fail_next("b", 1);
        let input = || Input::from(trail(["input"]));
        thread.run(input()).await.unwrap_err();
        // The caller does not know the result of its call, and repeats the call.
        for _ in 0..2 {
            let outcome = thread.run(input()).await.unwrap();
            assert_eq!(outcome.state(), &trail(["input", "a", "b", "c", "d"]), "{durability:?}");
        }
        // The id of the first run is still known after another run.
        let next = graph.thread("t", probe.clone());
        assert!(next.run(Trail::update().path(["next".to_owned()])).await.unwrap().is_done());
        let path = path_of(&next).await;
        assert_eq!(thread.run(input()).await.unwrap().state().path, path, "{durability:?}");
        assert_eq!(path_of(&next).await, path, "{durability:?}");
    }
}

#[tokio::test]
async fn concurrent_starts_with_the_same_run_id_apply_the_input_once() {
    let saver = MemorySaver::new();
    let probe = Probe::default();
    let start = |saver: MemorySaver| {
        let graph = chain(["a"]).checkpointer(saver).compile().unwrap();
        let options = RunOptions::new().run_id("once");
        let thread = graph.thread("t", probe.clone()).with_options(options);
        async move { thread.run(trail(["input"])).await }
    };
    let (first, second) = tokio::join!(start(saver.clone()), start(saver.clone()));
    // The slower of two concurrent starts finds the thread busy or done, and never applies its input again.
    assert!(first.is_ok() || second.is_ok());
    let last = start(saver).await.unwrap();
    assert_eq!(last.state(), &trail(["input", "a"]));
    assert_eq!(probe.trace(), "1: a");
}

#[tokio::test]
async fn the_history_can_be_filtered_and_read_in_pages() {
    let graph = chain(["a", "b"]).checkpointer(MemorySaver::new()).compile().unwrap();
    for (run, user) in [("first", "ada"), ("second", "bob")] {
        let options = RunOptions::new().run_id(run).metadata("user", user);
        let thread = graph.thread("t", Probe::default()).with_options(options);
        assert!(thread.run(Trail::update()).await.unwrap().is_done());
    }
    let thread = graph.thread("t", Probe::default());
    let all = thread.history(None).await.unwrap();
    assert_eq!(all.len(), 8);
    let found = async |filter: HistoryFilter| {
        let found = thread.history(filter).await.expect("the thread is readable");
        found.into_iter().map(|it| (it.run, it.step)).collect::<Vec<_>>()
    };
    let filter = HistoryFilter::new;
    let of = |run: &str, step: i64| (run.to_owned(), step);
    let inputs = [of("second", 3), of("first", -1)];
    assert_eq!(found(filter().source(Source::Input)).await, inputs);
    assert_eq!(found(filter().metadata("user", "ada").step(1)).await, [of("first", 1)]);
    assert_eq!(found(filter().run("second").limit(1)).await, [of("second", 6)]);
    assert_eq!(found(filter().next("b")).await, [of("second", 5), of("first", 1)]);
    assert_eq!(found(filter().next("b").limit(1)).await, [of("second", 5)]);
    assert_eq!(found(filter().before(all[4].id).next("b")).await, [of("first", 1)]);

    let mut pages = Vec::new();
    let mut page = thread.history(filter().limit(3)).await.unwrap();
    while let Some(last) = page.last().map(|it| it.id) {
        pages.extend(page.iter().map(|it| it.id));
        page = thread.history(filter().limit(3).before(last)).await.unwrap();
    }
    assert_eq!(pages, all.iter().map(|it| it.id).collect::<Vec<_>>());
}

#[test]
fn backends_are_accepted_as_values_and_as_arcs() {
    let build = || graph().node_as("a", async |_: &Trail| ()).edge(START, "a");
    let savers: [Arc<dyn Checkpointer>; 1] = [Arc::new(MemorySaver::new())];
    let stores: [Arc<dyn Store>; 1] = [Arc::new(InMemoryStore::new())];
    let caches: [Arc<dyn Cache>; 1] = [Arc::new(MemoryCache::new())];
    for graph in [
        build()
            .checkpointer(MemorySaver::new())
            .store(InMemoryStore::new())
            .cache(MemoryCache::new()),
        build()
            .checkpointer(Arc::new(MemorySaver::new()))
            .store(Arc::new(InMemoryStore::new()))
            .cache(Arc::new(MemoryCache::new())),
        build().checkpointer(savers[0].clone()).store(stores[0].clone()).cache(caches[0].clone()),
    ] {
        assert!(graph.compile().is_ok());
    }
}

#[tokio::test]
async fn concurrent_calls_with_equal_keys_are_matched_by_creation_order() {
    let made = Arc::new(AtomicU32::new(0));
    let counter = made.clone();
    let calls = async move |_: &Trail, cx: &Context<Probe>| {
        let call = |_| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            cx.task("draw", (), async move {
                // The first call finishes last.
                for _ in 0..(2 - number % 3) {
                    tokio::task::yield_now().await;
                }
                Ok(number % 3)
            })
        };
        let (a, b, c) = (call(0), call(1), call(2));
        let (a, b, c) = tokio::join!(a, b, c);
        cx.deps().enter(cx.step(), "calls").await?;
        Ok::<_, NodeError>(Trail::update().path([a?, b?, c?].map(|it| it.to_string())))
    };
    let graph = graph().node_as("calls", calls).edge(START, "calls");
    let probe = Probe::default();
    probe.fail_next("calls", 1);
    let thread = thread_of(graph, &probe);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(thread.proceed().await.unwrap().state(), &trail(["0", "1", "2"]));
}

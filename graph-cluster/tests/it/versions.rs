//! Two versions of a graph in one cluster. The second version has renamed a node, added one, and renamed a field.

use std::sync::Arc;

use graph_cluster::{PostgresQueue, RegisteredGraph, RunStatus, RunStore, StartRun, Worker};
use graph_core::{
    CompiledGraph, Context, END, Migrations, NodeError, Route, START, State, StateGraph,
};
use graph_store::PostgresSaver;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{cluster::Cluster, local_worker::LocalWorker};

/// The version of the worker that executes a node.
pub(crate) type Deps = &'static str;

mod first {
    use super::*;

    #[derive(State, Clone, Debug, Default)]
    #[state(version = 1)]
    pub(super) struct Essay {
        #[reduce(append)]
        pub(super) log: Vec<String>,
        pub(super) note: String,
    }

    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub(super) struct Section(u32);

    #[derive(Route)]
    pub(super) enum Sections {
        #[to(write)]
        Write(Vec<Section>),
    }

    fn sections(_: &Essay) -> Sections {
        Sections::Write((0..4).map(Section).collect())
    }

    async fn plan(_: &Essay) -> EssayUpdate {
        Essay::update().note("planned".to_owned())
    }

    async fn write(section: Section, cx: &Context<Deps>) -> Result<EssayUpdate, NodeError> {
        Ok(Essay::update().log([format!("section {} by version {}", section.0, cx.deps())]))
    }

    async fn approve(_: &Essay, cx: &Context<Deps>) -> Result<EssayUpdate, NodeError> {
        let answer: String = cx.interrupt("approve?")?;
        Ok(Essay::update().log([format!("{answer} in version {}", cx.deps())]))
    }

    pub(super) fn graph(saver: PostgresSaver) -> CompiledGraph<Essay, Deps> {
        let graph = StateGraph::new().node(plan).node(write).node(approve).edge(START, plan);
        let graph = graph.branch(plan, sections).edge(write, approve).edge(approve, END);
        graph.checkpointer(saver).compile().expect("the graph is valid")
    }
}

mod second {
    use super::*;

    #[derive(State, Clone, Debug, Default)]
    #[state(version = 2)]
    pub(super) struct Essay {
        #[reduce(append)]
        log: Vec<String>,
        remark: String,
    }

    async fn review(_: &Essay, cx: &Context<Deps>) -> Result<EssayUpdate, NodeError> {
        let answer: String = cx.interrupt("approve?")?;
        Ok(Essay::update().log([format!("{answer} in version {}", cx.deps())]))
    }

    async fn publish(essay: &Essay, cx: &Context<Deps>) -> EssayUpdate {
        let line = format!("published by version {} with remark {:?}", cx.deps(), essay.remark);
        Essay::update().log([line])
    }

    pub(super) fn graph(saver: PostgresSaver) -> CompiledGraph<Essay, Deps> {
        let migrations = Migrations::new().rename(1, "note", "remark");
        let migrations = migrations.rename_node(1, "approve", "review");
        let graph = StateGraph::new().node(review).node(publish).edge(START, review);
        let graph = graph.edge(review, publish).edge(publish, END).migrations(migrations);
        graph.checkpointer(saver).compile().expect("the graph is valid")
    }
}

/// Starts a worker that spreads steps of at least two tasks.
pub(crate) async fn start(cluster: &Cluster, id: &str, graph: RegisteredGraph) -> LocalWorker {
    LocalWorker::start(cluster, id, |it| it.register(graph).fan_out(2)).await
}

pub(crate) async fn saver(cluster: &Cluster) -> PostgresSaver {
    PostgresSaver::connect(&cluster.database).await.expect("the database is running")
}

async fn first(cluster: &Cluster, id: &str) -> LocalWorker {
    let graph = RegisteredGraph::new("essay", first::graph(saver(cluster).await), || "1");
    start(cluster, id, graph.version("1")).await
}

async fn second(cluster: &Cluster, id: &str) -> LocalWorker {
    let graph = RegisteredGraph::new("essay", second::graph(saver(cluster).await), || "2");
    start(cluster, id, graph.version("2")).await
}

/// Starts a run and waits for its question.
async fn ask(cluster: &Cluster, run: &str) {
    cluster.client.start(&StartRun::new(run, "essay", run)).await.expect("the run starts");
    let info = cluster.client.wait(run).await.expect("the run exists");
    assert_eq!(info.status, RunStatus::Interrupted, "{info:?}");
}

async fn answer(cluster: &Cluster, run: &str) {
    cluster.client.answer(run, "yes").await.expect("the interrupt is pending");
}

/// Waits for a run and returns its version and its log.
async fn finish(cluster: &Cluster, run: &str) -> (Option<String>, Value) {
    let info = cluster.client.wait(run).await.expect("the run exists");
    assert_eq!(info.status, RunStatus::Done, "{info:?}");
    (info.version, info.outcome.values["log"].clone())
}

fn first_log() -> Value {
    let sections = (0..4).map(|it| format!("section {it} by version 1"));
    sections.chain(["yes in version 1".to_owned()]).collect()
}

pub(crate) async fn run_stays_on_its_version(cluster: &Cluster) {
    let old = first(cluster, "old").await;
    ask(cluster, "a").await;
    old.stop().await;
    let new = second(cluster, "new").await;
    answer(cluster, "a").await;
    // `PostgresQueue` claims runs in the order in which they were started, so the new worker has skipped the first one.
    // With Restate, the new worker rejects the calls of the first run.
    ask(cluster, "b").await;
    let waiting = cluster.client.run("a").await.expect("the run exists");
    assert_eq!((waiting.status, waiting.version.as_deref()), (RunStatus::Queued, Some("1")));
    let status = cluster.client.status().await.expect("the database is running");
    assert_eq!(status.unserved, [("essay@1".to_owned(), 1)].into());
    let old = first(cluster, "old again").await;
    assert_eq!(finish(cluster, "a").await, (Some("1".to_owned()), first_log()));
    answer(cluster, "b").await;
    let published = json!(["yes in version 2", "published by version 2 with remark \"\""]);
    assert_eq!(finish(cluster, "b").await, (Some("2".to_owned()), published));
    tokio::join!(old.stop(), new.stop());
}

pub(crate) async fn run_migrates_to_a_version_that_continues_its_own(cluster: &Cluster) {
    let old = first(cluster, "old").await;
    ask(cluster, "a").await;
    old.stop().await;
    let graph = RegisteredGraph::new("essay", second::graph(saver(cluster).await), || "2");
    let new = start(cluster, "new", graph.version("2").continues("1")).await;
    answer(cluster, "a").await;
    // The id of an interrupt contains the name of its node, which was renamed, so the run asks again.
    let again = cluster.client.wait("a").await.expect("the run exists");
    assert_eq!((again.status, again.version.as_deref()), (RunStatus::Interrupted, Some("2")));
    answer(cluster, "a").await;
    let (version, log) = finish(cluster, "a").await;
    let sections = (0..4).map(|it| format!("section {it} by version 1"));
    let published = "published by version 2 with remark \"planned\"".to_owned();
    let expected: Value = sections.chain(["yes in version 2".to_owned(), published]).collect();
    assert_eq!((version.as_deref(), log), (Some("2"), expected));
    new.stop().await;
}

pub(crate) async fn tasks_are_executed_by_workers_of_their_version(cluster: &Cluster) {
    let workers = [
        first(cluster, "old 1").await,
        first(cluster, "old 2").await,
        second(cluster, "new 1").await,
        second(cluster, "new 2").await,
    ];
    for number in 0..6 {
        let run = format!("run {number}");
        ask(cluster, &run).await;
        answer(cluster, &run).await;
        let (version, log) = finish(cluster, &run).await;
        match version.as_deref() {
            Some("1") => assert_eq!(log, first_log()),
            version => {
                assert_eq!((version, log[0].as_str()), (Some("2"), Some("yes in version 2")))
            }
        }
    }
    for worker in workers {
        worker.stop().await;
    }
}

pub(crate) async fn graph_cannot_be_registered_twice_with_the_same_version(cluster: &Cluster) {
    let graph = Arc::new(first::graph(saver(cluster).await));
    let register = || RegisteredGraph::new("essay", (*graph).clone(), || "1").version("1");
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let worker = Worker::new(store).register(register()).register(register());
    let error = worker.serve(PostgresQueue::new(), std::future::pending()).await;
    let error = error.expect_err("the graph is registered twice").to_string();
    assert!(error.contains("`essay@1`"), "{error}");
}

//! The journal of a node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::{
    CompiledGraph, Context, Exit, MemorySaver, NodeError, RunError, START, State, StateGraph,
};
use llm::{Backoff, Error, ErrorKind, Llm, Piece};
use tokio::time::{sleep, timeout};

use super::{answer, error, fake};

#[derive(State, Clone, Debug, Default)]
struct Log {
    #[reduce(append)]
    said: Vec<String>,
}

/// What nodes are given: a model, and whether they fail in the end.
#[derive(Clone)]
struct Deps {
    llm: Llm,
    fails: Arc<AtomicBool>,
}

/// Asks the same thing twice and something else once, and may fail then.
async fn ask(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
    let llm = cx.deps().llm.clone().journal(cx);
    let (first, second) = tokio::join!(llm.generate("same"), llm.generate("same"));
    let mut reply = llm.stream("other");
    let mut said = vec![first?.text(), second?.text()];
    while let Some(piece) = reply.next().await {
        if let Piece::Text(text) = piece {
            said.push(text);
        }
    }
    reply.response().await?;
    if cx.deps().fails.swap(false, Ordering::Relaxed) {
        return Err(NodeError::terminal("the process dies"));
    }
    Ok(Log::update().said(said))
}

fn graph() -> CompiledGraph<Log, Deps> {
    let graph = StateGraph::<Log, Deps>::new().node(ask).edge(START, ask);
    graph.checkpointer(MemorySaver::new()).compile().unwrap()
}

fn deps(llm: Llm) -> Deps {
    Deps { llm, fails: Arc::new(AtomicBool::new(true)) }
}

#[tokio::test]
async fn a_resumed_node_does_not_pay_again() {
    let (llm, calls) = fake(|number, words| async move { Ok(answer(format!("{words} {number}"))) });
    let thread = graph().thread("t", deps(llm));
    thread.run(Log::default()).await.unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert!(matches!(thread.proceed().await, Ok(Exit::Done(_))));
    assert_eq!(calls.load(Ordering::Relaxed), 3, "all answers come from the journal");
    let said = thread.state().await.unwrap().unwrap().values.said;
    assert_eq!(said, ["same 0", "same 1", "other 2"]);
}

#[tokio::test]
async fn calls_that_failed_are_made_again() {
    let seen = Arc::new(AtomicUsize::new(0));
    let times = seen.clone();
    let (llm, calls) = fake(move |_, words| {
        let fails = words == "other" && times.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if fails { Err(error(ErrorKind::Truncated)) } else { Ok(answer(words)) } }
    });
    let thread = graph().thread("t", deps(llm));
    let failed = thread.run(Log::default()).await.unwrap_err();
    assert_eq!(failed.node_error::<Error>(), Some(&error(ErrorKind::Truncated)));
    thread.proceed().await.unwrap_err();
    assert!(matches!(thread.proceed().await, Ok(Exit::Done(_))));
    assert_eq!(calls.load(Ordering::Relaxed), 4, "the two answers of the first run are kept");
}

/// Asks once with a retry, once in vain, and once more, and may fail then.
async fn insist(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
    let journal = cx.deps().llm.clone().journal(cx);
    let backoff = Backoff::new(1).first_wait(Duration::ZERO);
    let first = journal.clone().retry(backoff).generate("?").await?.text();
    let dropped = timeout(Duration::from_secs(1), journal.generate("?")).await;
    let second = match dropped {
        Ok(known) => known?.text(),
        Err(_) => journal.generate("?").await?.text(),
    };
    if cx.deps().fails.swap(false, Ordering::Relaxed) {
        return Err(NodeError::terminal("the process dies"));
    }
    Ok(Log::update().said([first, second]))
}

#[tokio::test(start_paused = true)]
async fn calls_that_came_to_nothing_do_not_count() {
    let (llm, calls) = fake(|number, _| async move {
        match number {
            0 => return Err(error(ErrorKind::Truncated)),
            2 => sleep(Duration::from_secs(100)).await,
            _ => {}
        }
        Ok(answer(number.to_string()))
    });
    let graph = StateGraph::<Log, Deps>::new().node(insist).edge(START, insist);
    let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", deps(llm));
    thread.run(Log::default()).await.unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    assert!(matches!(thread.proceed().await, Ok(Exit::Done(_))));
    assert_eq!(calls.load(Ordering::Relaxed), 4, "both answers come from the journal");
    assert_eq!(thread.state().await.unwrap().unwrap().values.said, ["1", "3"]);
}

/// What becomes of a model's error on its way through a node: the kind that the node's code sees, and whether the
/// engine takes it as final where the layer hands it over.
async fn kinds(kind: ErrorKind) -> (ErrorKind, bool) {
    async fn look(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
        match cx.deps().llm.clone().journal(cx).generate("?").await {
            Ok(_) => Err(NodeError::terminal("it was to fail")),
            Err(error) => {
                Ok(Log::update().said([format!("{error:?}"), error.is_retryable().to_string()]))
            }
        }
    }
    let (llm, _) = fake(move |_, _| async move { Err(error(kind)) });
    let graph = StateGraph::<Log, Deps>::new().node(look).edge(START, look).compile().unwrap();
    let said = graph.run(Log::default(), deps(llm)).await.unwrap().said;
    assert_eq!(said[0], format!("{:?}", error(kind)), "the error comes back whole");
    (kind, said[1] == "true")
}

#[tokio::test]
async fn errors_come_back_as_they_were() {
    for (kind, retryable) in
        [(ErrorKind::RateLimited, true), (ErrorKind::Auth, false), (ErrorKind::Budget, false)]
    {
        assert_eq!(kinds(kind).await, (kind, retryable));
    }
}

#[tokio::test]
async fn an_answer_too_large_to_store_is_a_file_error() {
    let (llm, _) = fake(|_, _| async { Ok(answer("x".repeat(10_000))) });
    let graph = StateGraph::<Log, Deps>::new().node(ask).edge(START, ask);
    let graph = graph.checkpointer(MemorySaver::new()).max_stored_bytes(1_000).compile().unwrap();
    let failed = graph.thread("t", deps(llm)).run(Log::default()).await.unwrap_err();
    let RunError::Node { error, .. } = failed else { panic!("{failed}") };
    let error = error.downcast_ref::<Error>().unwrap();
    assert_eq!((error.kind, error.should_retry), (ErrorKind::File, Some(false)));
}

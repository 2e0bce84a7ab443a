//! Tests of the journal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::{
    CompiledGraph, Context, MemorySaver, NodeError, RunError, RunOutcome, START, State, StateGraph,
};
use llm::{Backoff, Error, ErrorKind, Llm, Piece};
use tokio::time::{sleep, timeout};

use super::{answer, error, fake};

#[derive(State, Clone, Debug, Default)]
struct Log {
    #[reduce(append)]
    said: Vec<String>,
}

/// Dependencies of the nodes: a model, and whether a node fails at its end.
#[derive(Clone)]
struct Deps {
    llm: Llm,
    fails: Arc<AtomicBool>,
}

/// Makes two identical calls and a different one, and then fails if `fails` is set.
async fn ask(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
    let llm = cx.deps().llm.clone().journal(cx);
    let (first, second) = tokio::join!(llm.generate("same"), llm.generate("same"));
    let mut stream = llm.stream("other");
    let mut said = vec![first?.text(), second?.text()];
    while let Some(piece) = stream.next().await {
        if let Piece::Text(text) = piece {
            said.push(text);
        }
    }
    stream.response().await?;
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
async fn resumed_node_does_not_repeat_calls() {
    let (llm, calls) =
        fake(|number, prompt| async move { Ok(answer(format!("{prompt} {number}"))) });
    let thread = graph().thread("t", deps(llm));
    thread.run(Log::default()).await.unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert!(matches!(thread.proceed().await, Ok(RunOutcome::Done(_))));
    assert_eq!(calls.load(Ordering::Relaxed), 3, "not all responses came from the journal");
    let said = thread.state().await.unwrap().unwrap().values.said;
    assert_eq!(said, ["same 0", "same 1", "other 2"]);
}

#[tokio::test]
async fn failed_calls_are_repeated() {
    let seen = Arc::new(AtomicUsize::new(0));
    let times = seen.clone();
    let (llm, calls) = fake(move |_, prompt| {
        let fails = prompt == "other" && times.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if fails { Err(error(ErrorKind::Truncated)) } else { Ok(answer(prompt)) } }
    });
    let thread = graph().thread("t", deps(llm));
    let failed = thread.run(Log::default()).await.unwrap_err();
    assert_eq!(failed.node_error::<Error>(), Some(&error(ErrorKind::Truncated)));
    thread.proceed().await.unwrap_err();
    assert!(matches!(thread.proceed().await, Ok(RunOutcome::Done(_))));
    assert_eq!(
        calls.load(Ordering::Relaxed),
        4,
        "the two responses of the first run were not reused"
    );
}

/// Makes a call with a retry, a call that times out, and another call, and then fails if `fails` is set.
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
async fn calls_without_a_response_do_not_change_the_numbering() {
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
    assert!(matches!(thread.proceed().await, Ok(RunOutcome::Done(_))));
    assert_eq!(calls.load(Ordering::Relaxed), 4, "not all responses came from the journal");
    assert_eq!(thread.state().await.unwrap().unwrap().values.said, ["1", "3"]);
}

/// Checks that a node receives a model's error of this kind unchanged. Returns the kind, and whether the error is
/// retryable for the node.
async fn kinds(kind: ErrorKind) -> (ErrorKind, bool) {
    async fn look(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
        match cx.deps().llm.clone().journal(cx).generate("?").await {
            Ok(_) => Err(NodeError::terminal("the call should fail")),
            Err(error) => {
                let fields = serde_json::to_string(&error)?;
                Ok(Log::update().said([fields, error.is_retryable().to_string()]))
            }
        }
    }
    let (llm, _) = fake(move |_, _| async move { Err(error(kind)) });
    let graph = StateGraph::<Log, Deps>::new().node(look).edge(START, look).compile().unwrap();
    let said = graph.invoke(Log::default(), deps(llm)).await.unwrap().said;
    let fields = serde_json::to_string(&error(kind)).unwrap();
    assert_eq!(said[0], fields, "the error was changed");
    (kind, said[1] == "true")
}

#[tokio::test]
async fn errors_are_returned_unchanged() {
    for (kind, retryable) in
        [(ErrorKind::RateLimited, true), (ErrorKind::Auth, false), (ErrorKind::Budget, false)]
    {
        assert_eq!(kinds(kind).await, (kind, retryable));
    }
}

#[tokio::test]
async fn oversized_response_is_a_file_error() {
    let (llm, _) = fake(|_, _| async { Ok(answer("x".repeat(10_000))) });
    let graph = StateGraph::<Log, Deps>::new().node(ask).edge(START, ask);
    let graph = graph.checkpointer(MemorySaver::new()).max_stored_bytes(1_000).compile().unwrap();
    let failed = graph.thread("t", deps(llm)).run(Log::default()).await.unwrap_err();
    let RunError::Node { error, .. } = failed else { panic!("{failed}") };
    let error = error.downcast_ref::<Error>().unwrap();
    assert_eq!((error.kind, error.should_retry), (ErrorKind::File, Some(false)));
}

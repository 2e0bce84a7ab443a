//! What gets through, how often, and what is kept.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::checkpoint::{CheckpointId, TaskId};
use serde_json::{Value, json};

use super::{Answer, Call, CallError, Fault, FaultCode, Gate, Name};

async fn pass(gate: &Gate, thread: &str, call: Call) -> Result<Value, Fault> {
    gate.pass(&Name::of(thread, &call), call).await
}

fn call(task: &str, kind: &str) -> Call {
    Call {
        kind: kind.to_owned(),
        request: json!("hello"),
        key: format!("{kind}:1"),
        task: TaskId::of(&[task.as_bytes()]),
        node: "node".to_owned(),
        namespace: String::new(),
        checkpoint: CheckpointId::from_bytes([1; 16]),
    }
}

fn counting() -> (Gate, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let gate = Gate::new(move |_: String, _: Value| {
        let nth = count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(json!(nth)) }
    });
    (gate.allow("llm.chat"), made)
}

#[tokio::test]
async fn the_same_call_of_the_same_task_is_made_once() {
    let (gate, made) = counting();
    for _ in 0..3 {
        assert_eq!(pass(&gate, "t", call("a", "llm.chat")).await, Ok(json!(0)));
    }
    assert_eq!(pass(&gate, "t", call("b", "llm.chat")).await, Ok(json!(1)));
    assert_eq!(pass(&gate, "other", call("a", "llm.chat")).await, Ok(json!(2)));
    assert_eq!(made.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_call_whose_guest_dies_is_finished_and_answers_the_next_guest() {
    let (go, wait) = tokio::sync::watch::channel(false);
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let gate = Gate::new(move |_: String, _: Value| {
        count.fetch_add(1, Ordering::SeqCst);
        let mut wait = wait.clone();
        async move {
            wait.wait_for(|it| *it).await.map_err(|_| CallError::new("gone"))?;
            Ok(json!("paid"))
        }
    })
    .allow("llm.chat");
    let first =
        tokio::time::timeout(Duration::from_millis(20), pass(&gate, "t", call("a", "llm.chat")));
    assert!(first.await.is_err());
    go.send_replace(true);
    assert_eq!(pass(&gate, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_is_not_allowed_too_much_or_too_large_is_refused() {
    let (gate, made) = counting();
    let gate = gate.budget(1).max_request(10);
    let code = |outcome: Result<Value, Fault>| outcome.unwrap_err().code;
    assert_eq!(code(pass(&gate, "t", call("a", "shell")).await), FaultCode::Refused);
    let large = Call { request: json!("x".repeat(20)), ..call("a", "llm.chat") };
    assert_eq!(code(pass(&gate, "t", large).await), FaultCode::Refused);
    assert!(pass(&gate, "t", call("a", "llm.chat")).await.is_ok());
    assert_eq!(code(pass(&gate, "t", call("b", "llm.chat")).await), FaultCode::Refused);
    assert_eq!(made.load(Ordering::SeqCst), 1);
    let (gate, _) = counting();
    let gate = gate.max_answer(0);
    assert_eq!(code(pass(&gate, "t", call("a", "llm.chat")).await), FaultCode::Terminal);
}

#[tokio::test]
async fn names_of_calls_are_bounded() {
    let (gate, made) = counting();
    let long = "x".repeat(super::MAX_NAME + 1);
    let first = || call("a", "llm.chat");
    for call in [
        Call { key: long.clone(), ..first() },
        Call { node: long.clone(), ..first() },
        Call { namespace: long.clone(), ..first() },
    ] {
        assert_eq!(pass(&gate, "t", call).await.unwrap_err().code, FaultCode::Refused);
    }
    assert_eq!(made.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_thread_that_is_forgotten_takes_no_room_and_others_stay() {
    let (gate, made) = counting();
    for thread in ["t", "other"] {
        pass(&gate, thread, call("a", "llm.chat")).await.unwrap();
    }
    gate.forget("t");
    assert_eq!(gate.state().journal.len(), 1);
    pass(&gate, "other", call("a", "llm.chat")).await.unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 2);
}

/// A gate whose calls end as they are told to, one after the other.
fn told() -> (Gate, tokio::sync::mpsc::UnboundedSender<Answer>) {
    let (tell, answers) = tokio::sync::mpsc::unbounded_channel::<Answer>();
    let answers = Arc::new(tokio::sync::Mutex::new(answers));
    let gate = Gate::new(move |_: String, _: Value| {
        let answers = answers.clone();
        async move { answers.lock().await.recv().await.unwrap() }
    });
    (gate.allow("llm.chat"), tell)
}

#[tokio::test]
async fn an_error_is_not_kept_though_whoever_waited_for_it_is_gone() {
    let (gate, tell) = told();
    let first = pass(&gate, "t", call("a", "llm.chat"));
    assert!(tokio::time::timeout(Duration::from_millis(20), first).await.is_err());
    tell.send(Err(CallError::new("busy"))).unwrap();
    let is_forgotten = async {
        while !gate.state().journal.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), is_forgotten).await.unwrap();
    tell.send(Ok(json!("paid"))).unwrap();
    assert_eq!(pass(&gate, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
}

#[tokio::test]
async fn an_error_that_is_heard_late_removes_no_later_answer() {
    let (gate, tell) = told();
    let name = Name::of("t", &call("a", "llm.chat"));
    let late = gate.enter(&name, call("a", "llm.chat")).unwrap();
    // A thread that is forgotten while a call is under way, and goes on all the same.
    gate.forget("t");
    let retry = gate.enter(&name, call("a", "llm.chat")).unwrap();
    assert!(!late.same_channel(&retry));
    tell.send(Err(CallError::new("busy"))).unwrap();
    tell.send(Ok(json!("paid"))).unwrap();
    assert_eq!(pass(&gate, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
    drop(tell);
    assert_eq!(pass(&gate, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
    assert_eq!(gate.made(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_rate_wait_for_their_turn() {
    let (gate, _) = counting();
    let gate = gate.rate(2);
    let started = tokio::time::Instant::now();
    for task in ["a", "b", "c"] {
        pass(&gate, "t", call(task, "llm.chat")).await.unwrap();
    }
    assert_eq!(started.elapsed(), Duration::from_secs(1));
}

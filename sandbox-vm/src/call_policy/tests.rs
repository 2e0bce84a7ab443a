//! Tests of the call policy: permissions, limits and the journal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::checkpoint::{CheckpointId, TaskId};
use serde_json::{Value, json};

use super::{Answer, CallError, CallId, CallPolicy, ExternalCall, Fault, FaultCode};

async fn execute(policy: &CallPolicy, thread: &str, call: ExternalCall) -> Result<Value, Fault> {
    policy.execute(&CallId::of(thread, &call), call).await
}

fn call(task: &str, kind: &str) -> ExternalCall {
    ExternalCall {
        kind: kind.to_owned(),
        request: json!("hello"),
        key: format!("{kind}:1"),
        task: TaskId::from_parts(&[task.as_bytes()]),
        node: "node".to_owned(),
        namespace: String::new(),
        checkpoint: CheckpointId::from_bytes([1; 16]),
    }
}

fn counting() -> (CallPolicy, Arc<AtomicUsize>) {
    let call_count = Arc::new(AtomicUsize::new(0));
    let count = call_count.clone();
    let policy = CallPolicy::new(move |_: String, _: Value| {
        let nth = count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(json!(nth)) }
    });
    (policy.allow("llm.chat"), call_count)
}

#[tokio::test]
async fn same_call_of_same_task_is_executed_once() {
    let (policy, call_count) = counting();
    for _ in 0..3 {
        assert_eq!(execute(&policy, "t", call("a", "llm.chat")).await, Ok(json!(0)));
    }
    assert_eq!(execute(&policy, "t", call("b", "llm.chat")).await, Ok(json!(1)));
    assert_eq!(execute(&policy, "other", call("a", "llm.chat")).await, Ok(json!(2)));
    assert_eq!(call_count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn call_of_dead_guest_completes_and_answers_next_guest() {
    let (go, wait) = tokio::sync::watch::channel(false);
    let call_count = Arc::new(AtomicUsize::new(0));
    let count = call_count.clone();
    let policy = CallPolicy::new(move |_: String, _: Value| {
        count.fetch_add(1, Ordering::SeqCst);
        let mut wait = wait.clone();
        async move {
            wait.wait_for(|it| *it).await.map_err(|_| CallError::new("the test ended"))?;
            Ok(json!("paid"))
        }
    })
    .allow("llm.chat");
    let first = tokio::time::timeout(
        Duration::from_millis(20),
        execute(&policy, "t", call("a", "llm.chat")),
    );
    assert!(first.await.is_err());
    go.send_replace(true);
    assert_eq!(execute(&policy, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
    assert_eq!(call_count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn disallowed_excess_and_oversized_calls_are_refused() {
    let (policy, call_count) = counting();
    let policy = policy.budget(1).max_request(10);
    let code = |outcome: Result<Value, Fault>| outcome.unwrap_err().code;
    assert_eq!(code(execute(&policy, "t", call("a", "shell")).await), FaultCode::Refused);
    let large = ExternalCall { request: json!("x".repeat(20)), ..call("a", "llm.chat") };
    assert_eq!(code(execute(&policy, "t", large).await), FaultCode::Refused);
    assert!(execute(&policy, "t", call("a", "llm.chat")).await.is_ok());
    assert_eq!(code(execute(&policy, "t", call("b", "llm.chat")).await), FaultCode::Refused);
    assert_eq!(call_count.load(Ordering::SeqCst), 1);
    let (policy, _) = counting();
    let policy = policy.max_answer(0);
    assert_eq!(code(execute(&policy, "t", call("a", "llm.chat")).await), FaultCode::Terminal);
}

#[tokio::test]
async fn call_field_lengths_are_bounded() {
    let (policy, call_count) = counting();
    let long = "x".repeat(super::MAX_FIELD_LEN + 1);
    let first = || call("a", "llm.chat");
    for call in [
        ExternalCall { key: long.clone(), ..first() },
        ExternalCall { node: long.clone(), ..first() },
        ExternalCall { namespace: long.clone(), ..first() },
    ] {
        assert_eq!(execute(&policy, "t", call).await.unwrap_err().code, FaultCode::Refused);
    }
    assert_eq!(call_count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn forgetting_a_thread_keeps_other_threads() {
    let (policy, call_count) = counting();
    for thread in ["t", "other"] {
        execute(&policy, thread, call("a", "llm.chat")).await.unwrap();
    }
    policy.forget_thread("t");
    assert_eq!(policy.state().journal.len(), 1);
    execute(&policy, "other", call("a", "llm.chat")).await.unwrap();
    assert_eq!(call_count.load(Ordering::SeqCst), 2);
}

/// Returns a policy and a sender. Each call that the policy makes returns the next answer from the sender.
fn scripted() -> (CallPolicy, tokio::sync::mpsc::UnboundedSender<Answer>) {
    let (answer_next, answers) = tokio::sync::mpsc::unbounded_channel::<Answer>();
    let answers = Arc::new(tokio::sync::Mutex::new(answers));
    let policy = CallPolicy::new(move |_: String, _: Value| {
        let answers = answers.clone();
        async move { answers.lock().await.recv().await.unwrap() }
    });
    (policy.allow("llm.chat"), answer_next)
}

#[tokio::test]
async fn errors_are_not_journaled_even_if_caller_is_dropped() {
    let (policy, answer_next) = scripted();
    let first = execute(&policy, "t", call("a", "llm.chat"));
    assert!(tokio::time::timeout(Duration::from_millis(20), first).await.is_err());
    answer_next.send(Err(CallError::new("busy"))).unwrap();
    let is_forgotten = async {
        while !policy.state().journal.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), is_forgotten).await.unwrap();
    answer_next.send(Ok(json!("paid"))).unwrap();
    assert_eq!(execute(&policy, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
}

#[tokio::test]
async fn late_error_does_not_remove_newer_answer() {
    let (policy, answer_next) = scripted();
    let id = CallId::of("t", &call("a", "llm.chat"));
    let late = policy.find_or_start(&id, call("a", "llm.chat")).unwrap();
    // The thread is forgotten while a call is in flight, and then makes the same call again.
    policy.forget_thread("t");
    let retry = policy.find_or_start(&id, call("a", "llm.chat")).unwrap();
    assert!(!late.same_channel(&retry));
    answer_next.send(Err(CallError::new("busy"))).unwrap();
    answer_next.send(Ok(json!("paid"))).unwrap();
    assert_eq!(execute(&policy, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
    drop(answer_next);
    assert_eq!(execute(&policy, "t", call("a", "llm.chat")).await, Ok(json!("paid")));
    assert_eq!(policy.calls_made(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_rate_are_delayed() {
    let (policy, _) = counting();
    let policy = policy.rate(2);
    let started = tokio::time::Instant::now();
    for task in ["a", "b", "c"] {
        execute(&policy, "t", call(task, "llm.chat")).await.unwrap();
    }
    assert_eq!(started.elapsed(), Duration::from_secs(1));
}

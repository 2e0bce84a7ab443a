use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_agents::{
    Agent, AgentError, AiMessage, Message, ScriptedModel, Status, Tool, ToolCache, ToolCall,
    ToolErrors, ToolMessage,
    middleware::{OnFailure, RetryOptions},
    tool,
};
use graph_core::{NodeError, RunError};
use serde_json::{Value, json};

/// Runs an agent whose model makes these calls in one message, and returns the results.
async fn run(tool: Tool, args: &[Value]) -> Result<Vec<ToolMessage>, RunError> {
    let call =
        |(index, it): (usize, &Value)| ToolCall::new(tool.name(), it.clone(), format!("c{index}"));
    let calls = args.iter().enumerate().map(call).collect();
    let first = AiMessage { tool_calls: calls, ..AiMessage::default() };
    let model = ScriptedModel::new([first, AiMessage::new("done")]);
    let agent = Agent::new(model).tools([tool]).compile().unwrap();
    let outcome = agent.run("hi").await?;
    Ok(outcome.messages.iter().filter_map(Message::as_tool).cloned().collect())
}

/// Returns a tool that fails this many times before it succeeds, and the number of its attempts.
fn failing(times: usize) -> (Tool, Arc<AtomicUsize>) {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = attempts.clone();
    let tool = Tool::dynamic("fetch", "Fetches.", json!({}), move |_, _| {
        let attempt = counter.fetch_add(1, Ordering::Relaxed);
        async move {
            match attempt < times {
                true => Err(NodeError::from(AgentError::named("ConnectionError", "no route"))),
                false => Ok(attempt),
            }
        }
    });
    (tool, attempts)
}

fn at_once(max_retries: u32, on_failure: OnFailure) -> RetryOptions {
    let initial_delay = Duration::ZERO;
    RetryOptions { max_retries, on_failure, initial_delay, ..RetryOptions::default() }
}

#[tokio::test]
async fn failed_calls_are_retried() {
    let (tool, attempts) = failing(2);
    let results = run(tool.retry(at_once(2, OnFailure::Fail)), &[json!({})]).await.unwrap();
    assert_eq!(results[0].content, "2".into());
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn exhausted_retries_are_answered() {
    let (tool, attempts) = failing(9);
    let results = run(tool.retry(at_once(1, OnFailure::Continue)), &[json!({})]).await.unwrap();
    assert_eq!(results[0].status, Status::Error);
    let expected =
        "Tool 'fetch' failed after 2 attempts with ConnectionError: no route. Please try again.";
    assert_eq!(results[0].content, expected.into());
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_timeout() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = attempts.clone();
    let slow = Tool::dynamic("slow", "Waits.", json!({}), move |_, _| {
        let attempt = counter.fetch_add(1, Ordering::Relaxed);
        async move {
            if attempt == 0 {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            attempt
        }
    });
    let slow = slow.timeout(Duration::from_secs(1)).retry(at_once(1, OnFailure::Fail));
    assert_eq!(run(slow, &[json!({})]).await.unwrap()[0].content, "1".into());
}

#[tokio::test]
async fn equal_calls_are_answered_from_the_cache() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let schema = json!({"properties": {"n": {"type": "integer"}}});
    let double = Tool::dynamic("double", "Doubles.", schema, move |args, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        async move { args["n"].as_i64().unwrap_or_default() * 2 }
    });
    let double = double.cache(ToolCache::new().capacity(1));
    let contents = |results: Vec<ToolMessage>| -> Vec<_> {
        results.into_iter().map(|it| (it.tool_call_id, it.content.text())).collect()
    };
    let pair = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    for _ in 0..2 {
        let results = run(double.clone(), &[json!({"n": 1})]).await.unwrap();
        assert_eq!(contents(results), [pair("c0", "2")]);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let _ = run(double.clone(), &[json!({"n": 2})]).await.unwrap();
    let _ = run(double, &[json!({"n": 1})]).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 3, "a full cache drops the oldest result");
}

#[tokio::test(start_paused = true)]
async fn cached_results_expire() {
    let (tool, runs) = failing(0);
    let tool = tool.cache(ToolCache::new().ttl(Duration::from_secs(10)));
    let _ = run(tool.clone(), &[json!({})]).await.unwrap();
    tokio::time::advance(Duration::from_secs(9)).await;
    let _ = run(tool.clone(), &[json!({})]).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    let _ = run(tool, &[json!({})]).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn error_policy_of_a_tool_overrides_that_of_the_node() {
    let (tool, _) = failing(9);
    assert!(run(tool.clone(), &[json!({})]).await.is_err());
    let results = run(tool.errors(ToolErrors::answer_text("offline")), &[json!({})]).await.unwrap();
    assert_eq!((results[0].content.text().as_str(), results[0].status), ("offline", Status::Error));
    let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let strict = Tool::dynamic("strict", "Fails.", schema, |_, _| async { 1 });
    assert_eq!(run(strict.clone(), &[json!({})]).await.unwrap()[0].status, Status::Error);
    assert!(run(strict.errors(ToolErrors::raise()), &[json!({})]).await.is_err());
}

#[tokio::test]
async fn results_are_in_the_order_of_the_calls() {
    let schema = json!({"properties": {"rounds": {"type": "integer"}}});
    let wait = Tool::dynamic("wait", "Waits.", schema, |args, _| async move {
        for _ in 0..args["rounds"].as_i64().unwrap_or_default() {
            tokio::task::yield_now().await;
        }
        args["rounds"].clone()
    });
    let args = [50, 1, 20].map(|rounds| json!({"rounds": rounds}));
    let results = run(wait, &args).await.unwrap();
    let texts: Vec<_> = results.iter().map(|it| it.content.text()).collect();
    assert_eq!(texts, ["50", "1", "20"]);
}

/// Returns a long text.
#[tool(max_output = 4, retries = 3, timeout_secs = 5, cache_secs = 60, untrusted)]
async fn long() -> String {
    "0123456789".to_owned()
}

/// Fails.
#[tool(answer_errors)]
async fn broken() -> Result<String, NodeError> {
    Err(AgentError::named("DiskError", "full").into())
}

#[tokio::test]
async fn macro_options_set_the_policy() {
    let results = run(long(), &[json!({})]).await.unwrap();
    let expected = "<untrusted_tool_output tool=\"long\">\n0123\n[output truncated: the first 4 of 10 characters \
                    are shown]\n</untrusted_tool_output>";
    assert_eq!(results[0].content, expected.into());
    let results = run(broken(), &[json!({})]).await.unwrap();
    let expected = "Error: DiskError('full')\n Please fix your mistakes.";
    assert_eq!(results[0].content, expected.into());
}

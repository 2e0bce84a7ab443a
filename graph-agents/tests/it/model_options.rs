//! Tests that the options of an agent reach the request to the model.

use std::sync::{Arc, Mutex};

use graph_agents::{Agent, LlmModel, ProviderTool, Tool, tool};
use llm::{Llm, Request, Scripted, WebSearch};
use serde_json::json;

/// Runs an agent that `build` completes, and returns the request that its model received.
async fn request(build: impl FnOnce(Agent) -> Agent) -> Request {
    let received = Arc::new(Mutex::new(None));
    let log = received.clone();
    let model = Scripted::new("m", move |request: &Request| {
        *log.lock().unwrap() = Some(request.clone());
        "done"
    });
    let agent = build(Agent::new(LlmModel::new(Llm::new(model)))).compile().unwrap();
    assert_eq!(agent.run("hi").await.unwrap().text(), "done");
    let request = received.lock().unwrap().take();
    request.unwrap()
}

/// Adds two numbers.
#[tool(strict)]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::test]
async fn strict_tools_are_requested() {
    let loose = Tool::dynamic("loose", "Returns 1.", json!({}), |_, _| async { 1 });
    let strict = loose.clone().strict();
    assert!(strict.is_strict() && !loose.is_strict());
    let request = request(|it| it.tools([add(), loose])).await;
    let tools: Vec<_> = request.tools.iter().map(|it| (it.name.as_str(), it.strict)).collect();
    assert_eq!(tools, [("add", true), ("loose", false)]);
}

#[tokio::test]
async fn parallel_tool_calls_and_log_probabilities_are_requested() {
    let plain = request(|it| it).await;
    assert_eq!((plain.parallel_tool_calls, plain.logprobs), (None, None));
    let request = request(|it| it.parallel_tool_calls(false).logprobs(2)).await;
    assert_eq!((request.parallel_tool_calls, request.logprobs), (Some(false), Some(2)));
}

#[tokio::test]
async fn provider_tools_keep_their_options() {
    let search = WebSearch { max_uses: Some(3), allowed_domains: vec!["rust-lang.org".to_owned()] };
    let maps = ProviderTool::Custom(json!({ "type": "maps_20260101" }));
    let request = request(|it| {
        it.provider_tool(ProviderTool::WebSearch(search.clone()))
            .provider_tool(ProviderTool::CodeExecution)
            .provider_tool(maps.clone())
    })
    .await;
    let expected = [ProviderTool::WebSearch(search), ProviderTool::CodeExecution, maps];
    assert_eq!(request.provider_tools, expected);
}

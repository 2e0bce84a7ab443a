//! An agent with a real small model on llama.cpp's server, which `cargo xtask test` installs. Without it, the test is
//! skipped with a message.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

use std::process::Stdio;

use async_trait::async_trait;
use graph_agents::{
    Agent, LlmModel, Message,
    middleware::{Hooks, Middleware},
    model::{ModelAnswer, ModelHandler, ModelRequest, PromptedTools, ToolChoice},
    tool,
};
use graph_core::NodeError;
use llm::{Backoff, Provider, Request};
use serde_json::json;
use test_support::peers;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Returns the weather in a city.
#[tool]
async fn weather(city: String) -> String {
    format!("It is 17 degrees and it rains in {city}.")
}

/// Lets the model call a tool once. The smallest models would otherwise repeat the call.
#[derive(Debug)]
struct OneCall;

#[async_trait]
impl Middleware for OneCall {
    fn name(&self) -> String {
        "OneCall".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call()
    }

    async fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        let has_result = request.messages.last().is_some_and(|it| it.as_tool().is_some());
        request.tool_choice = Some(if has_result { ToolChoice::None } else { ToolChoice::Any });
        next.call(request).await
    }
}

/// Starts the server. It runs until the returned child is dropped.
async fn start_server() -> Option<(String, Child)> {
    let dir = peers::find("llama-11549", "GRAPH_REQUIRE_LLAMA")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../llm/tests/it/peers/llama.py");
    let mut server = Command::new("sh")
        .args(["-c", r#"exec python3 "$@" 2>&1"#, "sh", script])
        .arg(dir.join("model.gguf"))
        .arg("0")
        .env("PYTHONPATH", dir.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // With these settings, idle OS threads do not compete for the CPU.
        .envs([("OMP_WAIT_POLICY", "passive"), ("GOMP_SPINCOUNT", "0")])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("the server listens before it exits");
        if let Some((_, address)) = line.split_once("listening on http://") {
            break format!("http://{}/v1", address.trim());
        }
    };
    // Keep reading, so that the server never blocks on a full pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some((url, server))
}

#[tokio::test]
async fn small_model_calls_a_tool_and_answers_from_its_result() {
    let Some((url, _server)) = start_server().await else { return };
    let provider = Provider::new("openai-compatible").unwrap().base_url(url).model("smollm2");
    let options = Request::conversation(Vec::new()).temperature(0.0).max_tokens(80);
    // The server closes idle connections, which can happen just as the client sends a request.
    let llm = provider.build().unwrap().retry(Backoff::new(2));
    let model = LlmModel::new(llm).with_options(options);
    let agent = Agent::new(PromptedTools::new(model)).tools([weather()]).middleware(OneCall);
    let outcome = agent.compile().unwrap().run("How is the weather in Rome?").await.unwrap();

    let [_, Message::Ai(call), Message::Tool(result), Message::Ai(answer)] = &outcome.messages[..]
    else {
        panic!("{:?}", outcome.messages);
    };
    assert_eq!(json!(call.tool_calls[0].args), json!({"city": "Rome"}));
    assert_eq!(result.content.text(), "It is 17 degrees and it rains in Rome.");
    assert!(answer.content.text().contains("17 degrees"), "{answer:?}");
}

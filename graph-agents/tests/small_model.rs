//! An agent with a real small model on llama.cpp's server, which `cargo xtask test` installs. Without it, the test is
//! skipped with a message.

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
use test_support::{llama::Llama, server::Server};

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

#[tokio::test]
async fn small_model_calls_a_tool_and_answers_from_its_result() {
    let Some(llama) = Llama::find() else { return };
    let server = Server::start(&llama.command());
    let url = format!("{}/v1", server.url);
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

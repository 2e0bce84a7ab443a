//! Tests with aimock, a server that implements the protocols of all six providers and can inject faults.

use std::{path::Path, process::Command, sync::OnceLock, time::Duration};

use llm::{
    Error, ErrorKind, Finish, Llm, Message, Phase, Piece, Provider, Request, Schema, Timeouts, Tool,
};
use serde_json::{Value, json};
use test_support::server::Server;

use super::Peer;

static AIMOCK: Peer = Peer {
    folder: "aimock-1.43.0",
    require: "GRAPH_REQUIRE_AIMOCK",
    start: |folder| Server::start(&program(folder)),
    started: OnceLock::new(),
};

fn program(folder: &Path) -> Command {
    let script = folder.join("node_modules/@copilotkit/aimock/dist/cli.js");
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/aimock.json");
    let mut command = Command::new("node");
    command.arg(script).args(["-p0", "-h127.0.0.1", "-c8", "--strict", "-f", fixtures]);
    command
}

/// The six providers and the paths of their base URLs at the server.
const PROVIDERS: [(&str, &str); 6] = [
    ("anthropic", ""),
    ("openai", "/v1"),
    ("google", ""),
    ("groq", "/openai/v1"),
    ("openrouter", "/api/v1"),
    ("ollama", ""),
];

/// Returns all configurations: the six providers, and OpenAI with the Responses API.
fn providers(server: &Server) -> Vec<Provider> {
    let provider = |(name, path)| {
        let provider = Provider::new(name).unwrap().key("sk-mock");
        provider.base_url(format!("{}{path}", server.url))
    };
    let mut providers: Vec<Provider> = PROVIDERS.map(provider).into();
    providers.push(provider(PROVIDERS[1]).responses_api().unwrap());
    providers
}

fn llms(server: &Server) -> impl Iterator<Item = Llm> {
    providers(server).into_iter().map(|it| it.build().unwrap())
}

const GREETING: &str = "Grüße aus dem Norden, wo die Nächte länger werden.";

#[tokio::test]
async fn plain_responses_are_decoded() {
    let Some(server) = AIMOCK.shared() else { return };
    for llm in llms(server) {
        let response = llm.generate("Hello!").await.unwrap();
        assert_eq!(response.text(), GREETING, "{llm:?}");
        assert_eq!(response.finish, Finish::Stop, "{llm:?}");
    }
}

#[tokio::test]
async fn streamed_pieces_add_up_to_the_response() {
    let Some(server) = AIMOCK.shared() else { return };
    for llm in llms(server) {
        let mut stream = llm.stream("Hello!");
        let mut pieces = vec![];
        while let Some(piece) = stream.next().await {
            pieces.push(piece);
        }
        assert!(pieces.len() > 3, "{llm:?}: {pieces:?}");
        let received = pieces.iter().map(|it| match it {
            Piece::Text(text) => text.as_str(),
            _ => panic!("{llm:?}: {it:?}"),
        });
        assert_eq!(received.collect::<String>(), GREETING, "{llm:?}");
        let response = stream.response().await.unwrap();
        assert_eq!((response.text().as_str(), &response.finish), (GREETING, &Finish::Stop));
    }
}

#[tokio::test]
async fn responses_conform_to_the_schema() {
    let Some(server) = AIMOCK.shared() else { return };
    let schema = json!({
        "type": "object",
        "properties": { "impact": { "type": "integer" }, "reason": { "type": "string" } },
        "required": ["impact", "reason"],
        "additionalProperties": false,
    });
    let request =
        Request::new("Rate this move.").schema(Schema { name: "rating".to_owned(), schema });
    for llm in llms(server) {
        let response = llm.generate(request.clone()).await.unwrap();
        let rating: Value = serde_json::from_str(&response.text()).unwrap();
        assert_eq!(rating, json!({ "impact": 8, "reason": "Prices go up." }), "{llm:?}");
    }
}

/// The tool call arrives in a plain and in a streamed response. The next request contains the result.
#[tokio::test]
async fn conversation_continues_after_a_tool_call() {
    let Some(server) = AIMOCK.shared() else { return };
    let parameters = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
        "required": ["city", "days"],
        "additionalProperties": false,
    });
    let description = "Tells the weather of the next days.".to_owned();
    let tool = Tool::new("weather", description, parameters);
    let request = Request::new("How is the weather?").tool(tool);
    for llm in llms(server) {
        let response = llm.generate(request.clone()).await.unwrap();
        let streamed = llm.stream(request.clone()).response().await.unwrap();
        for response in [response, streamed] {
            let call = response.tool_calls().next().unwrap().clone();
            assert_eq!(call.name, "weather", "{llm:?}");
            assert_eq!(call.arguments, json!({ "city": "Köln", "days": 2 }), "{llm:?}");
            // For Gemini, aimock sends a finish reason that does not exist in Google's API.
            let is_odd = response.finish == Finish::Other("FUNCTION_CALL".to_owned());
            assert!(response.finish == Finish::ToolCalls || is_odd, "{response:?}");
            let request = request
                .clone()
                .message(response.into_message())
                .message(Message::tool_result(&call, "rain"));
            let response = llm.generate(request).await.unwrap();
            assert_eq!(response.text(), "Take an umbrella.", "{llm:?}");
        }
    }
}

/// Returns the errors of a plain and a streamed call.
async fn errors(llm: &Llm, prompt: &str) -> [Error; 2] {
    let plain = llm.generate(prompt).await.unwrap_err();
    [plain, llm.stream(prompt).response().await.unwrap_err()]
}

#[tokio::test]
async fn rate_limit_errors_have_a_retry_delay() {
    let Some(server) = AIMOCK.shared() else { return };
    for llm in llms(server) {
        for error in errors(&llm, "Too fast.").await {
            assert_eq!(error.kind, ErrorKind::RateLimited, "{error:?}");
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{error:?}");
            assert!(error.is_retryable() && error.message.contains("Rate limit reached"));
        }
    }
}

#[tokio::test]
async fn unknown_request_is_an_error() {
    let Some(server) = AIMOCK.shared() else { return };
    for llm in llms(server) {
        for error in errors(&llm, "Nobody has an answer to this.").await {
            // The body reports an invalid request, but the status says that the server is unavailable.
            assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(503)), "{error:?}");
            assert!(error.message.contains("no fixture matched"), "{error:?}");
        }
    }
}

/// Faults that aimock injects are retryable errors. A request header tells aimock which fault to inject.
#[tokio::test]
async fn injected_faults_are_retryable_errors() {
    let Some(server) = AIMOCK.shared() else { return };
    let cases: [(&str, &[ErrorKind]); 4] = [
        ("malformed", &[ErrorKind::Malformed, ErrorKind::Truncated]),
        ("disconnect", &[ErrorKind::Network, ErrorKind::Truncated]),
        ("drop", &[ErrorKind::Overloaded]),
        ("ratelimit", &[ErrorKind::RateLimited]),
    ];
    for (chaos, kinds) in cases {
        for provider in providers(server) {
            let llm = provider.header(format!("x-aimock-chaos-{chaos}"), "1").build().unwrap();
            for error in errors(&llm, "Hello!").await {
                assert!(kinds.contains(&error.kind), "{chaos}: {error:?}");
                assert!(error.is_retryable(), "{chaos}: {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn slow_response_times_out() {
    let Some(server) = AIMOCK.shared() else { return };
    let timeouts = Timeouts { first_byte: Duration::from_millis(200), ..Timeouts::default() };
    for provider in providers(server) {
        let provider = provider.header("x-aimock-chaos-latency", "20000").timeouts(timeouts);
        for error in errors(&provider.build().unwrap(), "Hello!").await {
            assert_eq!(error.kind, ErrorKind::Timeout(Phase::FirstByte), "{error:?}");
        }
    }
}

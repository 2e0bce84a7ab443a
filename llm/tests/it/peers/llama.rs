//! Tests with llama.cpp's server and a small real model, over OpenAI's two protocols and Anthropic's protocol.

use std::{
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

use llm::{ErrorKind, Finish, Llm, Piece, Provider, Request, Schema};
use serde_json::{Value, json};
use test_support::{
    DEADLINE,
    llama::{self, Llama},
    ports::free_port,
    server::Server,
};
use tokio::time::sleep;

use super::Peer;

static LLAMA: Peer = Peer {
    folder: llama::FOLDER,
    require: llama::REQUIRE,
    start: |folder| Server::start(&Llama::new(folder).command()),
    started: OnceLock::new(),
};

fn llms(server: &Server) -> [Llm; 3] {
    let openai =
        || Provider::new("openai-compatible").unwrap().base_url(server.url.clone() + "/v1");
    let anthropic = Provider::new("anthropic").unwrap().base_url(&server.url).key("sk-none");
    let responses = openai().responses_api().unwrap();
    [openai(), responses, anthropic].map(|it| it.model("smollm2").build().unwrap())
}

fn openai(server: &Server) -> Llm {
    let [openai, ..] = llms(server);
    openai
}

fn question() -> Request {
    Request::new("Which colour has the sky?").system("You answer briefly.").max_tokens(6)
}

/// Returns a request for a list of at least this many numbers, so that a test can choose how long the response takes.
fn numbers(least: u32) -> Request {
    let schema = json!({ "type": "array", "items": { "type": "integer" }, "minItems": least });
    Request::new("Count.").schema(Schema { name: "numbers".to_owned(), schema })
}

#[tokio::test]
async fn plain_responses_are_decoded() {
    let Some(server) = LLAMA.shared() else { return };
    for llm in llms(server) {
        let response = llm.generate(question()).await.unwrap();
        assert!(!response.text().is_empty(), "{response:?}");
        assert!(matches!(response.finish, Finish::Stop | Finish::Length), "{response:?}");
        assert!(response.usage.unwrap().input > 10, "{response:?}");
        assert!((1..=6).contains(&response.usage.unwrap().output), "{response:?}");
    }
}

#[tokio::test]
async fn streamed_pieces_add_up_to_the_response() {
    let Some(server) = LLAMA.shared() else { return };
    for llm in llms(server) {
        let mut stream = llm.stream(question());
        let mut received = String::new();
        while let Some(piece) = stream.next().await {
            let Piece::Text(text) = piece else { panic!("{piece:?}") };
            received.push_str(&text);
        }
        let response = stream.response().await.unwrap();
        assert_eq!(response.text(), received, "{llm:?}");
        assert!(
            response.usage.unwrap().input > 10 && response.usage.unwrap().output > 0,
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn responses_conform_to_the_schema() {
    let Some(server) = LLAMA.shared() else { return };
    let schema = json!({
        "type": "object",
        "properties": {
            "impact": { "type": "integer", "minimum": 1, "maximum": 10 },
            "kind": { "enum": ["price", "product"] },
            "reason": { "type": "string", "maxLength": 8 },
        },
        "required": ["impact", "kind", "reason"],
        "additionalProperties": false,
    });
    let request = Request::new("Rate a higher price.").max_tokens(60);
    let request = request.schema(Schema { name: "rating".to_owned(), schema });
    let response = openai(server).generate(request).await.unwrap();
    let rating: Value = serde_json::from_str(&response.text()).unwrap();
    assert!((1..=10).contains(&rating["impact"].as_i64().unwrap()), "{rating}");
    assert!(rating["kind"] == "price" || rating["kind"] == "product", "{rating}");
    assert!(rating["reason"].as_str().unwrap().chars().count() <= 8, "{rating}");
}

#[tokio::test]
async fn long_prompt_is_an_error() {
    let Some(server) = LLAMA.shared() else { return };
    for llm in llms(server) {
        let request = Request::new("word ".repeat(4000)).max_tokens(5);
        let error = llm.generate(request).await.unwrap_err();
        assert_eq!((error.kind, error.status), (ErrorKind::RequestTooLong, Some(400)), "{error:?}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn invalid_request_is_an_error() {
    let Some(server) = LLAMA.shared() else { return };
    let schema = Schema { name: "odd".to_owned(), schema: json!({ "type": "nonsense" }) };
    let error = openai(server).generate(question().schema(schema)).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::BadRequest, Some(400)), "{error:?}");
    assert!(error.message.contains("nonsense"), "{error}");
}

#[tokio::test]
async fn wrong_url_is_an_error() {
    let Some(server) = LLAMA.shared() else { return };
    let provider = Provider::new("openai-compatible").unwrap().model("smollm2");
    let llm = provider.base_url(server.url.clone() + "/v7").build().unwrap();
    let error = llm.generate(question()).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::NotFound, Some(404)), "{error:?}");
}

/// Dropping a call also stops it on the server. The server processes one request at a time, so if the dropped request
/// were still running, the next one would wait for it.
#[tokio::test]
async fn dropped_call_frees_the_server() {
    let Some(server) = LLAMA.shared() else { return };
    let llm = openai(server);
    let n_cancelled = || server.log().matches("cancel task").count();
    let before = n_cancelled();
    let mut stream = llm.stream(numbers(900).max_tokens(1800));
    assert!(matches!(stream.next().await, Some(Piece::Text(_))));
    drop(stream);
    llm.generate(question()).await.unwrap();
    // Another thread reads the log, so the line may arrive after the response.
    let deadline = Instant::now() + DEADLINE;
    while n_cancelled() == before {
        assert!(Instant::now() < deadline, "{}", server.log());
        sleep(Duration::from_millis(10)).await;
    }
}

/// While the server loads its model, it answers that it is not ready, which is a retryable error. The model is a pipe
/// without a writer, so the server loads it until the end of the test.
#[tokio::test]
async fn loading_server_is_a_retryable_error() {
    let Some(folder) = LLAMA.folder() else { return };
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model.gguf");
    assert!(Command::new("mkfifo").arg(&model).status().unwrap().success());
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let program = Llama { model, port, ..Llama::new(&folder) };
    let server = Server::start_at(&program.command(), url);
    let llm = openai(&server);
    let deadline = Instant::now() + DEADLINE;
    let error = loop {
        let error = llm.generate(question().max_tokens(1)).await.unwrap_err();
        if error.kind != ErrorKind::Unreachable {
            break error;
        }
        assert!(Instant::now() < deadline, "the server does not listen:\n{}", server.log());
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(503)), "{error:?}");
    assert!(error.is_retryable() && error.message.contains("Loading model"), "{error:?}");
}

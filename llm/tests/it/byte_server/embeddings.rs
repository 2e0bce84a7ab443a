//! Embeddings in the wire formats of the providers.

use llm::{Backoff, Embedder, ErrorKind, Provider};
use serde_json::{Value, json};

use super::{ByteServer, Move, answers};

/// Returns the body of a recorded request.
fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn reply(body: &Value) -> Vec<Move> {
    vec![Move::Write(answers::answer("200 OK", "", &body.to_string()))]
}

fn embedder(server: &ByteServer, provider: &str) -> Embedder {
    server.provider(provider).dimensions(2).build_embedder().unwrap()
}

#[tokio::test]
async fn each_provider_has_its_wire_format() {
    let openai = json!({
        "data": [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, -2]}],
        "usage": {"prompt_tokens": 7},
    });
    let google = json!({"embeddings": [{"values": [1, -2]}, {"values": [3, 4.5]}]});
    let ollama = json!({"embeddings": [[1, -2], [3, 4.5]], "prompt_eval_count": 7});
    let content = |text| {
        json!({
            "model": "models/m", "content": {"parts": [{"text": text}]}, "outputDimensionality": 2,
        })
    };
    let input = json!({"model": "m", "input": ["a", "b"], "dimensions": 2});
    let mut untruncated = input.clone();
    untruncated["truncate"] = json!(false);
    let requests = json!({"requests": [content("a"), content("b")]});
    let cases = [
        ("openai", "POST /embeddings ", &input, &openai, Some(7)),
        ("openrouter", "POST /embeddings ", &input, &openai, Some(7)),
        ("google", "POST /v1beta/models/m:batchEmbedContents ", &requests, &google, None),
        ("ollama", "POST /api/embed ", &untruncated, &ollama, Some(7)),
    ];
    for (provider, start, sent, received, tokens) in cases {
        let server = ByteServer::start([reply(received)]).await;
        let embeddings = embedder(&server, provider).embed(["a", "b"]).await.unwrap();
        assert_eq!(embeddings.vectors, [[1.0, -2.0], [3.0, 4.5]], "{provider}");
        assert_eq!(embeddings.usage.map(|it| it.input), tokens, "{provider}");
        let request = &server.requests()[0];
        assert!(request.starts_with(start), "{request}");
        assert_eq!(body(request), *sent, "{provider}");
    }
}

#[tokio::test]
async fn many_texts_are_sent_in_batches() {
    let server = ByteServer::start_with(|request| {
        let n_texts = body(request)["input"].as_array().unwrap().len();
        reply(&json!({"embeddings": vec![vec![n_texts]; n_texts], "prompt_eval_count": n_texts}))
    })
    .await;
    let texts = (0..250).map(|it| it.to_string());
    let embeddings = embedder(&server, "ollama").embed(texts).await.unwrap();
    assert_eq!(embeddings.vectors.len(), 250);
    assert_eq!((&*embeddings.vectors[0], &*embeddings.vectors[249]), (&[100.0][..], &[50.0][..]));
    assert_eq!(embeddings.usage.unwrap().input, 250);
    assert!(embedder(&server, "ollama").embed::<&str>([]).await.unwrap().vectors.is_empty());
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn invalid_responses_are_errors() {
    for received in [
        json!({}),
        json!({"embeddings": [[1.0]]}),
        json!({"embeddings": [[1.0], [null]]}),
        json!({"embeddings": [[1.0], []]}),
        json!({"embeddings": [[1.0], [1e300]]}),
    ] {
        let server = ByteServer::start([reply(&received)]).await;
        let error = embedder(&server, "ollama").embed(["a", "b"]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed, "{received}: {error}");
    }
}

#[tokio::test]
async fn failed_calls_are_retried_if_configured() {
    let failure = || vec![Move::Write(answers::answer("503 Busy", "", r#"{"error": "busy"}"#))];
    let success = reply(&json!({"embeddings": [[1.0]]}));
    let server = ByteServer::start([failure(), failure(), success]).await;
    let plain = embedder(&server, "ollama");
    assert_eq!(plain.embed(["a"]).await.unwrap_err().status, Some(503));
    let retried = plain.retry(Backoff::new(1).first_wait(std::time::Duration::ZERO));
    assert_eq!(retried.embed(["a"]).await.unwrap().vectors, [[1.0]]);
}

#[test]
fn provider_without_embedding_models_is_an_error() {
    let error = Provider::new("anthropic").unwrap().key("k").build_embedder().unwrap_err();
    assert!(error.to_string().starts_with("anthropic has no embedding models; use "), "{error}");
}

//! Tests which servers are asked for the size of a model's context window.

use serde_json::json;

use super::{ByteServer, answers::write};

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Checks the size that a provider reports if its server gives this answer, and the first line of the request.
async fn check(provider: &str, body: &str, request: &str, expect: Option<u64>) {
    let server = ByteServer::start([write(answer("200 OK", body))]).await;
    let base = if provider == "ollama" { server.url() } else { format!("{}/v1", server.url()) };
    assert_eq!(server.provider(provider).base_url(base).context_size().await, expect, "{body}");
    assert!(server.requests()[0].starts_with(request), "{:?}", server.requests());
}

#[tokio::test]
async fn size_of_the_context_window_is_requested_from_the_server() {
    let info = json!({ "model_info": {
        "general.architecture": "qwen2", "qwen2.context_length": 32768, "llama.context_length": 1,
    } });
    check("ollama", &info.to_string(), "POST /api/show ", Some(32768)).await;
    let props = json!({ "default_generation_settings": { "n_ctx": 4096 }, "total_slots": 2 });
    check("openai-compatible", &props.to_string(), "GET /props ", Some(4096)).await;
}

#[tokio::test]
async fn context_size_is_unknown_if_the_server_does_not_report_it() {
    for body in ["{}", "[]", "<html>", r#"{"model_info": {"general.architecture": "qwen2"}}"#] {
        check("ollama", body, "POST /api/show ", None).await;
        check("openai-compatible", body, "GET /props ", None).await;
    }
    let server = ByteServer::start([write(answer("404 Not Found", "{}"))]).await;
    assert_eq!(server.provider("openai-compatible").context_size().await, None);
    let other = ByteServer::start([]).await;
    assert_eq!(other.provider("anthropic").context_size().await, None);
    assert_eq!(other.requests(), Vec::<String>::new());
}

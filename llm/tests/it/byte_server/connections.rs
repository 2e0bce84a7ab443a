//! Tests of how connections are reused, closed and replaced.

use std::time::Duration;

use llm::{ErrorKind, Llm, Piece, Timeouts};

use super::{
    ByteServer, KEY, LONG_TIMEOUTS, Move,
    answers::{CHAT, TEXT, WIRES, answer, hello, write},
};

#[tokio::test]
async fn calls_share_a_connection() {
    for wire in &WIRES {
        let server = ByteServer::start([
            write(wire.plain()),
            write(wire.chunked()),
            write(answer("429 Slow", "", "{}")),
            write(wire.plain()),
        ])
        .await;
        let llm = wire.provider(&server).build().unwrap();
        assert_eq!(llm.generate(hello()).await.unwrap().text(), TEXT);
        assert_eq!(llm.stream(hello()).response().await.unwrap().text(), TEXT);
        assert_eq!(llm.generate(hello()).await.unwrap_err().kind, ErrorKind::RateLimited);
        assert_eq!(llm.generate(hello()).await.unwrap().text(), TEXT);
        assert_eq!(server.n_connections(), 1, "{}", wire.provider);
    }
}

#[tokio::test]
async fn closed_connections_are_replaced() {
    let mut then_closed = write(CHAT.plain());
    then_closed.push(Move::Close);
    let server = ByteServer::start([then_closed]).await;
    let llm = server.llm(CHAT.provider);
    for n_calls in 1..=3 {
        assert_eq!(llm.generate(hello()).await.unwrap().text(), TEXT);
        assert_eq!(server.n_connections(), n_calls);
        server.n_open(0).await;
    }
}

#[tokio::test]
async fn broken_connection_is_a_retryable_error() {
    let server = ByteServer::start([write(CHAT.plain()), vec![Move::Reset]]).await;
    let llm = server.llm(CHAT.provider);
    llm.generate(hello()).await.unwrap();
    let error = llm.generate(hello()).await.unwrap_err();
    assert_eq!((error.kind, error.is_retryable()), (ErrorKind::Network, true), "{error}");
    // The request is not repeated automatically, because it may already have been answered and paid for.
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn refused_connection_is_unreachable() {
    let unreachable = ByteServer::start([vec![]]).await.provider(CHAT.provider);
    let llm = unreachable.base_url("http://127.0.0.1:1").build().unwrap();
    let error = llm.generate(hello()).await.unwrap_err();
    assert_eq!((error.kind, error.is_retryable()), (ErrorKind::Unreachable, true), "{error}");
}

/// Cancels a call after the server has received the request.
async fn cancel(server: &ByteServer, llm: Llm) {
    let call = tokio::spawn(async move { llm.generate(hello()).await });
    server.n_requests(1).await;
    server.n_open(1).await;
    call.abort();
    server.n_open(0).await;
}

#[tokio::test]
async fn dropped_call_closes_its_connection() {
    let server = ByteServer::start([vec![]]).await;
    cancel(&server, server.llm(CHAT.provider)).await;
}

#[tokio::test]
async fn dropped_call_closes_its_connection_during_the_response() {
    let server = ByteServer::start([write(&CHAT.plain()[..80])]).await;
    cancel(&server, server.llm(CHAT.provider)).await;
}

#[tokio::test]
async fn dropped_stream_closes_its_connection() {
    for wire in &WIRES {
        let chunked = wire.chunked();
        let server = ByteServer::start([write(&chunked[..chunked.len() - 20])]).await;
        let mut stream = wire.provider(&server).build().unwrap().stream(hello());
        assert_eq!(stream.next().await, Some(Piece::Text("Grü".to_owned())));
        server.n_open(1).await;
        drop(stream);
        server.n_open(0).await;
    }
}

#[tokio::test]
async fn pieces_arrive_before_the_response_is_complete() {
    let chunked = CHAT.chunked();
    // The server never sends the second half.
    let server = ByteServer::start([write(&chunked[..chunked.len() / 2])]).await;
    let mut stream = server.llm(CHAT.provider).stream(hello());
    assert_eq!(stream.next().await, Some(Piece::Text("Grü".to_owned())));
}

#[tokio::test]
async fn stream_with_the_content_type_of_json_is_read() {
    for wire in WIRES.iter().filter(|it| it.provider != "ollama") {
        let server = ByteServer::start([write(answer("200 OK", "", wire.stream))]).await;
        let llm = wire.provider(&server).build().unwrap();
        let response = llm.stream(hello()).response().await.unwrap();
        assert_eq!(response.text(), TEXT, "{wire:?}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = ByteServer::start([write(CHAT.plain())]).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary", "308 Permanent"] {
        let location = format!("Location: {}/there?token=hidden\r\n", elsewhere.url());
        let server = ByteServer::start([write(answer(status, &location, ""))]).await;
        let error = server.llm(CHAT.provider).generate(hello()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.message.contains(&format!("{}/there", elsewhere.url())), "{error}");
        assert!(!error.message.contains("hidden"), "{error}");
    }
    assert_eq!(elsewhere.n_connections(), 0);
}

#[tokio::test]
async fn requests_have_path_key_and_headers() {
    let server = ByteServer::start([write(answer("400 No", "", "{}"))]).await;
    let cases = [
        ("anthropic", "POST /base/v1/messages?tenant=7 ", "x-api-key: "),
        ("openai", "POST /base/chat/completions?tenant=7 ", "authorization: Bearer "),
        ("google", "POST /base/v1beta/models/m:generateContent?tenant=7 ", "x-goog-api-key: "),
        ("groq", "POST /base/chat/completions?tenant=7 ", "authorization: Bearer "),
        ("openrouter", "POST /base/chat/completions?tenant=7 ", "authorization: Bearer "),
        ("ollama", "POST /base/api/chat?tenant=7 ", "authorization: Bearer "),
        ("openai-compatible", "POST /base/chat/completions?tenant=7 ", "authorization: Bearer "),
    ];
    for (provider, line, header) in cases {
        let base = format!("{}/base/?tenant=7", server.url());
        let llm = server.provider(provider).base_url(base).header("X-Title", "test");
        llm.build().unwrap().generate(hello()).await.unwrap_err();
        let request = server.requests().pop().unwrap();
        assert!(request.starts_with(line), "{request}");
        assert!(request.contains(&format!("\r\n{header}{KEY}\r\n")), "{request}");
        assert!(request.contains("\r\nx-title: test\r\n"), "{request}");
    }
}

#[tokio::test]
async fn errors_and_debug_output_show_neither_key_nor_query() {
    let silent = ByteServer::start([vec![]]).await;
    let nonsense = ByteServer::start([vec![Move::Write(b"SMTP?\r\n\r\n".to_vec())]]).await;
    let broken =
        ByteServer::start([vec![Move::Write(CHAT.plain()[..90].to_vec()), Move::Close]]).await;
    let unreachable = "http://127.0.0.1:1".to_owned();
    for base in [silent.url(), nonsense.url(), broken.url(), unreachable] {
        let provider = silent.provider(CHAT.provider).header("x-more", "hidden");
        let timeouts = Timeouts { first_byte: Duration::from_millis(200), ..LONG_TIMEOUTS };
        let provider = provider.base_url(format!("{base}/path?token=hidden")).timeouts(timeouts);
        let shown = format!("{provider:?}");
        let llm = provider.build().unwrap();
        let error = llm.generate(hello()).await.unwrap_err();
        let shown = format!("{shown} {llm:?} {error} {error:?}");
        assert!(!shown.contains(KEY) && !shown.contains("hidden"), "{shown}");
    }
}

//! Tests of responses that are too large.

use llm::{Error, ErrorKind, Limits};

use super::{
    ByteServer, Move,
    answers::{CHAT, WIRES, hello, write},
};

const LIMITS: Limits = Limits { body_bytes: 100_000, event_bytes: 10_000 };

#[track_caller]
fn check(error: &Error, expect: &str) {
    assert_eq!(error.kind, ErrorKind::ResponseTooLarge, "{error}");
    assert_eq!(error.message, expect);
    assert!(!error.is_retryable());
}

/// Returns a script that writes more bytes than the client accepts.
fn endless(head: &str, piece: &str) -> Vec<Move> {
    let piece = format!("{:x}\r\n{piece}\r\n", piece.len()).into_bytes();
    let head = format!("HTTP/1.1 200 OK\r\n{head}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut moves = write(head);
    moves.resize(10_000, Move::Write(piece));
    moves
}

#[tokio::test]
async fn endless_response_is_stopped() {
    let server =
        ByteServer::start([endless("Content-Type: application/json", &" ".repeat(5000))]).await;
    for wire in &WIRES {
        let llm = wire.provider(&server).limits(LIMITS).build().unwrap();
        let error = llm.generate(hello()).await.unwrap_err();
        check(&error, "the response has more than 100000 bytes");
    }
    server.n_open(0).await;
}

#[tokio::test]
async fn endless_stream_is_stopped() {
    let server =
        ByteServer::start([endless("Content-Type: text/event-stream", ": still here\n\n")]).await;
    let llm = server.provider(CHAT.provider).limits(LIMITS).build().unwrap();
    let error = llm.stream(hello()).response().await.unwrap_err();
    check(&error, "the response has more than 100000 bytes");
    server.n_open(0).await;
}

#[tokio::test]
async fn endless_event_is_stopped() {
    let server =
        ByteServer::start([endless("Content-Type: text/event-stream", "data: aaaaaaaaaaa")]).await;
    for wire in &WIRES {
        let llm = wire.provider(&server).limits(LIMITS).build().unwrap();
        let error = llm.stream(hello()).response().await.unwrap_err();
        check(&error, "an event has more than 10000 bytes");
    }
}

#[tokio::test]
async fn excessive_content_length_is_rejected() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999999\r\n\r\n{";
    let server = ByteServer::start([write(head)]).await;
    let llm = server.provider(CHAT.provider).limits(LIMITS).build().unwrap();
    let error = llm.generate(hello()).await.unwrap_err();
    check(&error, "the response has more than 100000 bytes");
}

#[tokio::test]
async fn long_error_response_keeps_its_kind() {
    let mut moves = endless("Content-Type: text/html", &"no ".repeat(1000));
    moves[0] = Move::Write(b"HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec());
    let server = ByteServer::start([moves]).await;
    let error = server.llm(CHAT.provider).generate(hello()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Auth);
}

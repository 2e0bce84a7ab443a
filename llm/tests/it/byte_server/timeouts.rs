//! Tests of the timeouts of each phase. Sockets do not follow tokio's paused clock, so the tests use short real times.

use std::time::Duration;

use llm::{ErrorKind, Phase, Provider, Timeouts};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::{
    ByteServer, LONG_TIMEOUTS, Move,
    answers::{CHAT, WIRES, hello, write},
};

const SHORT: Duration = Duration::from_millis(100);

#[track_caller]
fn check(error: &llm::Error, phase: Phase) {
    assert_eq!(error.kind, ErrorKind::Timeout(phase), "{error}");
    assert!(error.message.contains("100ms"), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn missing_response_times_out() {
    let server = ByteServer::start([vec![]]).await;
    let timeouts = Timeouts { first_byte: SHORT, ..LONG_TIMEOUTS };
    for wire in &WIRES {
        let llm = wire.provider(&server).timeouts(timeouts).build().unwrap();
        check(&llm.generate(hello()).await.unwrap_err(), Phase::FirstByte);
        check(&llm.stream(hello()).response().await.unwrap_err(), Phase::FirstByte);
    }
    server.n_open(0).await;
}

#[tokio::test]
async fn missing_body_times_out() {
    let server = ByteServer::start([write(CHAT.head("Transfer-Encoding: chunked"))]).await;
    let timeouts = Timeouts { first_byte: SHORT, ..LONG_TIMEOUTS };
    let llm = server.provider(CHAT.provider).timeouts(timeouts).build().unwrap();
    check(&llm.stream(hello()).response().await.unwrap_err(), Phase::FirstByte);
}

#[tokio::test]
async fn stalled_body_times_out() {
    let timeouts = Timeouts { idle: SHORT, ..LONG_TIMEOUTS };
    for wire in &WIRES {
        let plain = wire.plain();
        let server = ByteServer::start([write(&plain[..plain.len() - 20])]).await;
        let llm = wire.provider(&server).timeouts(timeouts).build().unwrap();
        check(&llm.generate(hello()).await.unwrap_err(), Phase::Idle);
        server.n_open(0).await;
    }
}

#[tokio::test]
async fn endless_response_times_out() {
    let mut moves = vec![Move::Write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".to_vec(),
    )];
    // The writes last far longer than the timeout of the client, even on a busy machine.
    for _ in 0..20_000 {
        moves.extend([Move::Write(b": wait\n\n".to_vec()), Move::Wait(Duration::from_millis(10))]);
    }
    let server = ByteServer::start([moves]).await;
    let timeouts = Timeouts { total: SHORT, ..LONG_TIMEOUTS };
    let llm = server.provider(CHAT.provider).timeouts(timeouts).build().unwrap();
    check(&llm.stream(hello()).response().await.unwrap_err(), Phase::Total);
    server.n_open(0).await;
}

/// A response may take longer than the idle timeout, as long as no pause between its bytes exceeds that timeout.
#[tokio::test]
async fn slow_response_does_not_time_out() {
    // A busy machine may delay a piece by seconds.
    let idle = Duration::from_secs(15);
    let timeouts = Timeouts { idle, ..LONG_TIMEOUTS };
    let pieces = CHAT.chunked();
    let pieces = pieces.chunks(pieces.len() / 50);
    let moves: Vec<Move> = pieces
        .flat_map(|it| [Move::Write(it.to_vec()), Move::Wait(Duration::from_millis(350))])
        .collect();
    let server = ByteServer::start([moves]).await;
    let llm = server.provider(CHAT.provider).timeouts(timeouts).build().unwrap();
    let response = llm.stream(hello()).response().await.unwrap();
    assert!(response.latency > idle, "the response was too fast for this test");
}

/// The connect timeout includes the TLS handshake.
#[tokio::test]
async fn stalled_tls_handshake_times_out() {
    let server = ByteServer::start([vec![]]).await;
    let provider = server.provider(CHAT.provider).base_url(server.url().replace("http", "https"));
    let timeouts = Timeouts { connect: SHORT, ..LONG_TIMEOUTS };
    let llm = provider.timeouts(timeouts).build().unwrap();
    check(&llm.generate(hello()).await.unwrap_err(), Phase::Connect);
}

/// A connection that is not accepted times out. A listener with a full queue does not accept connections.
#[tokio::test]
async fn stalled_connect_times_out() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = vec![];
    // On a busy machine, even a connection that is accepted may take a while.
    while let Ok(stream) = timeout(Duration::from_secs(5), TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    let provider = Provider::new(CHAT.provider).unwrap().base_url(format!("http://{address}"));
    let timeouts = Timeouts { connect: SHORT, ..LONG_TIMEOUTS };
    let llm = provider.model("m").timeouts(timeouts).build().unwrap();
    check(&llm.generate(hello()).await.unwrap_err(), Phase::Connect);
}

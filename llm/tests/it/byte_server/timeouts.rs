//! Time-outs by the phase in which the time ran out. Sockets know no paused clock: the times are short and real.

use std::time::Duration;

use llm::{ErrorKind, Phase, Provider, Timeouts};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::{
    ByteServer, Move, PATIENT,
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
async fn no_answer() {
    let server = ByteServer::start([vec![]]).await;
    let timeouts = Timeouts { first_byte: SHORT, ..PATIENT };
    for wire in &WIRES {
        let llm = wire.provider(&server).timeouts(timeouts).build().unwrap();
        check(&llm.generate(hello()).await.unwrap_err(), Phase::FirstByte);
        check(&llm.stream(hello()).response().await.unwrap_err(), Phase::FirstByte);
    }
    server.n_open(0).await;
}

#[tokio::test]
async fn a_head_and_no_answer() {
    let server = ByteServer::start([write(CHAT.head("Transfer-Encoding: chunked"))]).await;
    let timeouts = Timeouts { first_byte: SHORT, ..PATIENT };
    let llm = server.provider(CHAT.provider).timeouts(timeouts).build().unwrap();
    check(&llm.stream(hello()).response().await.unwrap_err(), Phase::FirstByte);
}

#[tokio::test]
async fn half_an_answer() {
    let timeouts = Timeouts { idle: SHORT, ..PATIENT };
    for wire in &WIRES {
        let plain = wire.plain();
        let server = ByteServer::start([write(&plain[..plain.len() - 20])]).await;
        let llm = wire.provider(&server).timeouts(timeouts).build().unwrap();
        check(&llm.generate(hello()).await.unwrap_err(), Phase::Idle);
        server.n_open(0).await;
    }
}

#[tokio::test]
async fn an_answer_that_never_stops_coming() {
    let mut moves = vec![Move::Write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".to_vec(),
    )];
    for _ in 0..1000 {
        moves.extend([Move::Write(b": wait\n\n".to_vec()), Move::Wait(Duration::from_millis(10))]);
    }
    let server = ByteServer::start([moves]).await;
    let timeouts = Timeouts { total: SHORT, ..PATIENT };
    let llm = server.provider(CHAT.provider).timeouts(timeouts).build().unwrap();
    check(&llm.stream(hello()).response().await.unwrap_err(), Phase::Total);
    server.n_open(0).await;
}

/// Slow, but never silent for too long.
#[tokio::test]
async fn a_slow_answer_is_none_too_late() {
    let idle = Duration::from_secs(2);
    let timeouts = Timeouts { first_byte: idle, idle, ..PATIENT };
    let pieces = CHAT.chunked();
    let pieces = pieces.chunks(pieces.len() / 50);
    let moves: Vec<Move> = pieces
        .flat_map(|it| [Move::Write(it.to_vec()), Move::Wait(Duration::from_millis(50))])
        .collect();
    let server = ByteServer::start([moves]).await;
    let llm = server.provider(CHAT.provider).timeouts(timeouts).build().unwrap();
    let response = llm.stream(hello()).response().await.unwrap();
    assert!(response.latency > idle, "the test is too quick to show anything");
}

/// The connection stands once it is encrypted.
#[tokio::test]
async fn no_encryption() {
    let server = ByteServer::start([vec![]]).await;
    let provider = server.provider(CHAT.provider).base_url(server.url().replace("http", "https"));
    let timeouts = Timeouts { connect: SHORT, ..PATIENT };
    let llm = provider.timeouts(timeouts).build().unwrap();
    check(&llm.generate(hello()).await.unwrap_err(), Phase::Connect);
}

/// A listener whose queue is full does not answer whoever wants to connect.
#[tokio::test]
async fn no_connection() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = vec![];
    while let Ok(stream) = timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    let provider = Provider::new(CHAT.provider).unwrap().base_url(format!("http://{address}"));
    let timeouts = Timeouts { connect: SHORT, ..PATIENT };
    let llm = provider.model("m").timeouts(timeouts).build().unwrap();
    check(&llm.generate(hello()).await.unwrap_err(), Phase::Connect);
}

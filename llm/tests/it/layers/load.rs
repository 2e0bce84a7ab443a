//! Makes ten thousand concurrent calls through a rate limiter to a server that counts them.

use std::{
    collections::BTreeSet,
    env, fs, io,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use llm::{Provider, RateLimit, RateLimiter};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::byte_server::LONG_TIMEOUTS;

const CALLS: usize = 10_000;
const CONCURRENCY: usize = 64;

/// Prompt of calls that are cancelled. The server may still process them, but does not count them.
const CANCELLED: &str = "given up";

/// Counts of connections and calls at the server.
#[derive(Debug, Default)]
struct Counts {
    /// Highest number of connections that were open at the same time.
    open: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    answered: AtomicUsize,
}

/// Answers chat requests with their own text and counts them.
async fn serve(listener: TcpListener, counts: Arc<Counts>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, counts.clone()));
        while connections.try_join_next().is_some() {}
        counts.open.fetch_max(connections.len(), Ordering::Relaxed);
    }
}

async fn converse(stream: TcpStream, counts: Arc<Counts>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(body) = read(&mut stream).await? {
        let request: Value = serde_json::from_slice(&body)?;
        let prompt = &request["messages"][0]["content"];
        let counted = usize::from(prompt != CANCELLED);
        let running = counts.running.fetch_add(counted, Ordering::Relaxed) + counted;
        counts.most.fetch_max(running, Ordering::Relaxed);
        sleep(Duration::from_millis(1)).await;
        // Let calls accumulate at the beginning. On a busy machine, they could otherwise arrive one after the other.
        let deadline = Instant::now() + Duration::from_secs(120);
        while counted > 0
            && counts.most.load(Ordering::Relaxed) <= CONCURRENCY / 8
            && Instant::now() < deadline
        {
            sleep(Duration::from_millis(1)).await;
        }
        // The call is counted as finished before the answer is sent, because the client may start its next call as
        // soon as it receives the answer.
        counts.running.fetch_sub(counted, Ordering::Relaxed);
        counts.answered.fetch_add(counted, Ordering::Relaxed);
        write(&mut stream, prompt).await?;
    }
    Ok(())
}

/// Reads the body of the next request. Returns `None` if the connection is closed.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await? > 0 {
        if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = number.trim().parse().unwrap();
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            return Ok(Some(body));
        }
        line.clear();
    }
    Ok(None)
}

async fn write(stream: &mut BufReader<TcpStream>, prompt: &Value) -> io::Result<()> {
    let message = json!({ "role": "assistant", "content": prompt });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    let body = json!({ "model": "echo", "choices": [choice], "usage": {} }).to_string();
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    stream.write_all(format!("{head} {length}\r\n\r\n{body}").as_bytes()).await
}

/// Environment variable that is set when the test below runs itself in a separate process.
const OWN_PROCESS: &str = "LLM_TEST_OWN_PROCESS";

/// Makes the calls in a separate process, because the test measures the memory of its process, and concurrent tests
/// would use memory, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_concurrent_calls_all_succeed_within_the_limit() {
    if env::var_os(OWN_PROCESS).is_some() {
        return make_calls().await;
    }
    let mut test = Command::new(env::current_exe().unwrap());
    test.args([
        "layers::load::ten_thousand_concurrent_calls_all_succeed_within_the_limit",
        "--exact",
        "--nocapture",
    ]);
    let output = test.env(OWN_PROCESS, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

async fn make_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let remote = Provider::new("openai-compatible").unwrap().base_url(url).model("echo");
    let remote = remote.timeouts(LONG_TIMEOUTS).build();
    let counts = Arc::new(Counts::default());
    let server = tokio::spawn(serve(listener, counts.clone()));
    let llm = remote.unwrap().rate_limit(&RateLimiter::new(RateLimit::new(CONCURRENCY)));

    let before = resident();
    let (mut calls, mut dropped) = (JoinSet::new(), JoinSet::new());
    for number in 0..CALLS {
        let (kept, cancelled) = (llm.clone(), llm.clone());
        calls.spawn(async move { kept.generate(number.to_string()).await.unwrap().text() });
        if number % 10 == 0 {
            // In addition, a tenth as many calls are made and cancelled, most of them while they are waiting.
            let limit = Duration::from_micros(number as u64 * 10);
            dropped.spawn(async move { timeout(limit, cancelled.generate(CANCELLED)).await });
        }
    }
    while counts.answered.load(Ordering::Relaxed) < CALLS / 4 {
        sleep(Duration::from_millis(1)).await;
    }
    // By now all calls have been made, and most of them are waiting.
    let grown = resident().saturating_sub(before);
    let answers: BTreeSet<String> = calls.join_all().await.into_iter().collect();
    let cancelled = dropped.join_all().await.into_iter().filter(Result::is_err).count();

    assert_eq!(answers.len(), CALLS, "a call was lost or answered twice");
    assert_eq!(answers, (0..CALLS).map(|it| it.to_string()).collect());
    let most = counts.most.load(Ordering::Relaxed);
    assert!(most <= CONCURRENCY, "{most} concurrent calls");
    assert!(most > CONCURRENCY / 8, "only {most} concurrent calls: the rate limiter is too strict");
    let connections = counts.open.load(Ordering::Relaxed);
    assert!(
        connections <= 2 * CONCURRENCY,
        "waiting calls hold connections: {connections} are open"
    );
    assert!(grown < 64 << 20, "{CALLS} waiting calls hold {grown} bytes");
    let answered = counts.answered.load(Ordering::Relaxed);
    assert_eq!(answered, CALLS);
    assert!(cancelled > 0, "no call was cancelled");
    server.abort();
}

/// Returns the resident memory of the process in bytes, or 0 if the system does not report it.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|it| it.split_whitespace().nth(1)?.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}

//! Downloads of SEC filings, from a mock server.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{edgar::fixture, sample::date};
use crate::data::{
    DataOrigin, DataSource, Item, Ticker,
    edgar::{Downloader, EdgarError, Hosts},
};

const AGENT: &str = "Example Research jane@example.com";
const TICKERS: &str = r#"{
    "10": {"cik_str": 4, "ticker": "NVDX", "title": "Nearly Inc."},
    "0": {"cik_str": 1045810, "ticker": "NVDA", "title": "NVIDIA CORP"},
    "2": {"cik_str": 1, "ticker": "EXMP", "title": "Example Corp"},
    "3": {"cik_str": 1067983, "ticker": "BRK-B", "title": "BERKSHIRE HATHAWAY INC"},
    "4": {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."}
}"#;

const SUBMISSIONS: &str = r#"{"filings": {"recent": {"accessionNumber": ["0000000001-24-000007"],
    "filingDate": ["2024-08-01"], "reportDate": ["2024-07-31"], "form": ["8-K"], "items": ["1.01"]}}}"#;

/// A mock server whose answers depend on the path of the request. It records all requests.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                log.lock().unwrap().push((head.clone(), Instant::now()));
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                match answer(&path) {
                    Some(bytes) => drop(stream.write_all(&bytes).await),
                    // Never answers and keeps the connection open.
                    None => silent.push(stream),
                }
            }
        });
        Self { address, requests }
    }

    /// Starts a server that has the ticker list and the facts of one company.
    async fn with_example() -> Self {
        Self::start(|path| {
            Some(match path {
                "/files/company_tickers.json" => answer("200 OK", TICKERS),
                "/api/xbrl/companyfacts/CIK0000000001.json" => answer("200 OK", &example()),
                "/submissions/CIK0000000001.json" => answer("200 OK", SUBMISSIONS),
                _ => answer("404 Not Found", "<html>"),
            })
        })
        .await
    }

    fn online(&self, cache: &Path) -> Downloader {
        let hosts = Hosts { files: self.address.clone(), data: format!("{}/", self.address) };
        Downloader { hosts, ..Downloader::new(AGENT, cache) }
    }

    fn paths(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|it| it.0.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
    }
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into()
}

/// Returns a hand-made file in the SEC's format.
fn example() -> String {
    fs::read_to_string(fixture().join("EXMP.json")).unwrap()
}

fn temp_dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn ticker(text: &str) -> Ticker {
    Ticker::parse(text).unwrap()
}

#[tokio::test]
async fn downloaded_files_are_read_from_the_cache() {
    let (server, cache) = (Server::with_example().await, temp_dir());
    let source = DataSource {
        origin: DataOrigin::EdgarOnline(server.online(cache.path())),
        as_of: date(2024, 12, 31),
    };
    let started = Instant::now();
    for _ in 0..2 {
        let company = source.read(&ticker("EXMP")).await.unwrap();
        let last = company.annuals.last().unwrap();
        assert_eq!(last.get(Item::Revenue), Some(1_110_000_000));
        assert_eq!(company.current_reports[0].items, ["1.01"]);
    }
    let facts = "/api/xbrl/companyfacts/CIK0000000001.json";
    let submissions = "/submissions/CIK0000000001.json";
    assert_eq!(server.paths(), ["/files/company_tickers.json", facts, submissions]);
    let requests = server.requests.lock().unwrap().clone();
    assert!(requests.iter().all(|it| {
        it.0.to_lowercase().contains("user-agent: example research jane@example.com\r\n")
    }));
    // The client waits 100 ms between requests.
    let elapsed = requests[2].1 - started;
    assert!(elapsed >= Duration::from_millis(200), "{elapsed:?}");
    let mut files: Vec<_> =
        fs::read_dir(cache.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    files.sort();
    let cached = ["CIK0000000001-submissions.json", "CIK0000000001.json", "company_tickers.json"];
    assert_eq!(files, cached);
}

#[tokio::test]
async fn a_missing_list_of_filings_is_a_warning() {
    let server = Server::start(|path| {
        Some(match path {
            "/files/company_tickers.json" => answer("200 OK", TICKERS),
            "/api/xbrl/companyfacts/CIK0000000001.json" => answer("200 OK", &example()),
            _ => answer("503 Service Unavailable", ""),
        })
    })
    .await;
    let cache = temp_dir();
    let source = DataSource {
        origin: DataOrigin::EdgarOnline(server.online(cache.path())),
        as_of: date(2024, 12, 31),
    };
    let company = source.read(&ticker("EXMP")).await.unwrap();
    let warning = company.warnings.last().unwrap();
    assert!(warning.starts_with("8-K filings are missing: cannot download "), "{warning}");
    assert!(warning.contains("/submissions/CIK0000000001.json: 503"), "{warning}");
}

#[tokio::test]
async fn online_sources_are_serializable() {
    let source = DataSource {
        origin: DataOrigin::EdgarOnline(Downloader::new(AGENT, "cache")),
        as_of: date(2024, 12, 31),
    };
    let json = serde_json::to_value(&source).unwrap();
    assert_eq!(json["data"], "edgar_online");
    assert_eq!(serde_json::from_value::<DataSource>(json).unwrap(), source);
}

#[tokio::test]
async fn unknown_tickers_suggest_similar_ones() {
    let (server, cache) = (Server::with_example().await, temp_dir());
    let online = server.online(cache.path());
    for (symbol, expected) in [
        (
            "NVDI",
            "ticker NVDI; did you mean NVDA (NVIDIA CORP), NVDX (Nearly Inc.)? if it was listed recently",
        ),
        ("APPLE", "ticker APPLE; did you mean AAPL (Apple Inc.)? if"),
        ("BRK.A", "ticker BRK.A; did you mean BRK-B (BERKSHIRE HATHAWAY INC)? if"),
        ("ZZZZZZZ", "ticker ZZZZZZZ; if it was listed recently, delete "),
    ] {
        let message = online.fetch(&ticker(symbol)).await.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(server.paths().len(), 1);
}

#[tokio::test]
async fn no_request_is_made_without_a_valid_contact() {
    let (server, cache) = (Server::with_example().await, temp_dir());
    for agent in
        ["", "  ", "Example Research", "jane@", "@example.com", "jane@example", "a@b.c\nx: y"]
    {
        let online = Downloader { user_agent: agent.to_owned(), ..server.online(cache.path()) };
        let error = online.fetch(&ticker("EXMP")).await.unwrap_err();
        assert!(matches!(error, EdgarError::InvalidContact(_)), "{agent:?}: {error}");
        assert!(error.to_string().contains("jane@example.com"));
    }
    assert!(server.paths().is_empty());
}

/// Returns the error for downloading the ticker list from a server that sends `answer`. If `answer` is `None`, the
/// server never answers.
async fn problem(answer: Option<Vec<u8>>) -> String {
    let timeout = Duration::from_millis(if answer.is_some() { 240_000 } else { 400 });
    let (server, cache) = (Server::start(move |_| answer.clone()).await, temp_dir());
    let online = Downloader { timeout, max_bytes: 10_000, ..server.online(cache.path()) };
    let error = online.fetch(&ticker("EXMP")).await.unwrap_err();
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0, "nothing is cached");
    let EdgarError::Fetch { address, problem } = error else { panic!("{error}") };
    assert!(address.ends_with("/files/company_tickers.json"));
    problem
}

#[tokio::test]
async fn invalid_responses_are_reported() {
    let message = problem(Some(answer("403 Forbidden", "<html>"))).await;
    assert!(message.starts_with("403 Forbidden: the SEC rejects clients"), "{message}");
    assert!(problem(Some(answer("503 Service Unavailable", ""))).await.contains("try again later"));
    assert!(problem(Some(answer("302 Found", ""))).await.starts_with("302"));
    assert!(problem(Some(answer("200 OK", "<html>"))).await.contains("not JSON"));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{}".to_vec();
    let message = problem(Some(cut)).await;
    assert!(!message.is_empty());
    assert_eq!(problem(None).await, "no complete response within 400ms");
}

#[tokio::test]
async fn too_large_responses_are_rejected() {
    let large = "[".to_owned() + &"1,".repeat(6000) + "1]";
    let too_large = "the response is larger than 10000 bytes";
    assert_eq!(problem(Some(answer("200 OK", &large))).await, too_large);
    // The limit also applies to a response without a content length.
    let unsaid = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{large}");
    assert_eq!(problem(Some(unsaid.into())).await, too_large);
}

#[tokio::test]
async fn missing_facts_are_reported() {
    let (server, cache) = (Server::with_example().await, temp_dir());
    let error = server.online(cache.path()).fetch(&ticker("NVDA")).await.unwrap_err();
    assert!(error.to_string().contains("404 Not Found: the SEC has no such file"), "{error}");
}

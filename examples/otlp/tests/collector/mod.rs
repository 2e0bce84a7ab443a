//! A collector that receives spans over OTLP.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use serde_json::Value;

/// A collector on a port of this machine.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    requests: Receiver<Value>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer_request(stream.unwrap(), &sender);
            }
        });
        Self { endpoint, requests }
    }

    /// Returns the spans of all requests that were answered.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for body in self.requests.try_iter() {
            let found = body["resourceSpans"].as_array().unwrap().iter();
            let found = found.flat_map(|it| it["scopeSpans"].as_array().unwrap());
            spans.extend(found.flat_map(|it| it["spans"].as_array().unwrap().clone()));
        }
        spans
    }
}

pub(crate) fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let attributes = span["attributes"].as_array().unwrap().iter();
    let mut found = attributes.filter(|it| it["key"] == key);
    found.next().unwrap()["value"]["stringValue"].as_str().unwrap()
}

/// Reads a request, sends its body to `requests` and then answers it. Returns `None` if it is incomplete.
fn answer_request(mut stream: TcpStream, requests: &Sender<Value>) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    requests.send(serde_json::from_slice(&body).ok()?).ok()?;
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    stream.write_all(answer.as_bytes()).ok()
}

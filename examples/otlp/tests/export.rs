//! Tests that the spans of the example arrive at a collector, nested and with their fields.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

#[test]
fn spans_arrive_with_their_names_and_fields() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Some(body) = answer_request(stream.unwrap()) else { continue };
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    let example = Command::new(env!("CARGO_BIN_EXE_otlp-example"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&example.stderr);
    assert!(example.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&example.stdout), "3 drafts\n");

    let mut spans = Vec::new();
    while let Ok(body) = requests.recv_timeout(Duration::from_millis(500)) {
        let found = body["resourceSpans"].as_array().unwrap().iter();
        let found = found.flat_map(|it| it["scopeSpans"].as_array().unwrap());
        spans.extend(found.flat_map(|it| it["spans"].as_array().unwrap().clone()));
    }
    let mut counts = BTreeMap::new();
    for span in &spans {
        *counts.entry(span["name"].as_str().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts["graph.run"], 1);
    assert_eq!(counts["graph.task"], 3);
    // The supersteps are the input, START and the three drafts. After the last superstep, nothing is left to run.
    assert_eq!(counts["graph.superstep"], 5);
    assert!(counts["graph.checkpoint"] >= 1, "{counts:?}");

    let find = |name: &str| spans.iter().find(|it| it["name"] == name).unwrap();
    let run = find("graph.run");
    assert_eq!(attribute(run, "thread"), "essay-1");
    let task = find("graph.task");
    assert_eq!(attribute(task, "node"), "write");
    let by_id: BTreeMap<&str, &Value> =
        spans.iter().map(|it| (it["spanId"].as_str().unwrap(), it)).collect();
    let step = by_id[task["parentSpanId"].as_str().unwrap()];
    assert_eq!(step["name"], "graph.superstep");
    assert_eq!(step["parentSpanId"], run["spanId"]);
    // Log events from the node belong to the span of its task.
    assert!(task["events"].to_string().contains("writing"), "{task:#}");
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let attributes = span["attributes"].as_array().unwrap().iter();
    let mut found = attributes.filter(|it| it["key"] == key);
    found.next().unwrap()["value"]["stringValue"].as_str().unwrap()
}

/// Reads a request, responds to it and returns the body of the request.
fn answer_request(mut stream: TcpStream) -> Option<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
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
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    stream.write_all(answer.as_bytes()).unwrap();
    serde_json::from_slice(&body).ok()
}

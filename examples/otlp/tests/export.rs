//! Tests that the spans of the example arrive at a collector, nested and with their fields.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod collector;

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

use crate::collector::{Collector, attribute};

#[test]
fn spans_arrive_with_their_names_and_fields() {
    let collector = Collector::start();
    let example = Command::new(env!("CARGO_BIN_EXE_otlp-example"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "120000")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&example.stderr);
    assert!(example.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&example.stdout), "3 drafts\n");

    let spans = collector.spans();
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

//! Streams of runs that another replica executes.

use serde_json::json;

use crate::process::{Cluster, Event, job};

#[tokio::test]
async fn every_replica_streams_the_same_events_and_resumes_after_any_of_them() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(4), cluster.replica(4));
    let run = a.start(&a.new_thread().await, &job("x", 20, 10)).await;
    // The run is executing while both streams are read.
    let (from_a, from_b) = tokio::join!(a.stream(&run, "-1"), b.stream(&run, "-1"));
    check(&from_a, 20);
    assert_eq!(from_a, from_b);
    assert_eq!(b.get(&run).await["status"], "success");
    // The run has ended, and a third replica has never seen it.
    let c = cluster.replica(4);
    assert_eq!(c.stream(&run, "-1").await, from_a);
    for (position, event) in from_a.iter().enumerate() {
        let rest = b.stream(&run, &event.id).await;
        assert_eq!(rest, from_a[position + 1..], "after event {position}");
    }
}

/// Checks that the events are complete, and that their ids are ordered.
fn check(events: &[Event], rounds: usize) {
    let count = |name: &str| events.iter().filter(|it| it.name == name).count();
    assert_eq!(count("metadata"), 1, "{events:#?}");
    assert_eq!(count("custom"), rounds);
    assert_eq!(count("error"), 0);
    let number = |it: &Event| {
        let (seq, part) = it.id.split_once('-').unwrap();
        (seq.parse::<u64>().unwrap(), part.parse::<u64>().unwrap())
    };
    assert!(events.is_sorted_by(|a, b| number(a) < number(b)));
    assert!(events.last().unwrap().data.contains(&format!("\"done\":{rounds}")));
}

#[tokio::test]
async fn a_thread_stream_contains_the_runs_of_all_replicas() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(1), cluster.replica(1));
    let thread = a.new_thread().await;
    let mut runs = Vec::new();
    for label in ["x", "y", "z"] {
        let run = a.start(&thread, &job(label, 2, 0)).await;
        a.get(&format!("{run}/join")).await;
        runs.push(run);
    }
    // The stream has no end, so it is read until the end of the last run.
    let body = json!({ "channels": ["lifecycle"] });
    for replica in [&a, &b] {
        let path = format!("{thread}/stream/events");
        let is_complete = |lines: &[&str]| {
            let completed = lines.iter().filter(|it| it.contains("\"completed\""));
            completed.count() >= runs.len()
        };
        replica.read_lines(&path, &body, is_complete).await;
    }
}

//! Kills the process of a session during each model call. The session must repeat no completed call and leave no
//! sandbox behind.

use std::{fs, path::Path, process::Stdio, time::Duration};

use llm::{Llm, testkit::FakeProvider};
use reflexion_graph::offline;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::{
    PROGRAM,
    sessions::{critic, program, scripted},
};

async fn provider(model: Llm) -> FakeProvider {
    FakeProvider::start(model).await.unwrap()
}

fn start(provider: &FakeProvider, line: &[&str], dir: &Path) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(line).current_dir(dir).env("OPENAI_COMPATIBLE_BASE_URL", provider.address());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

/// Returns the ids of a process and its descendants with their start times. The start time distinguishes processes,
/// because process ids are reused.
fn process_tree(root: u32) -> Vec<(u32, String)> {
    let stat = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<String> =
            text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
        Some((fields[1].parse::<u32>().ok()?, fields[19].clone()))
    };
    let all: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut tree = vec![root];
    // Search several times, because a child may have a smaller process id than its parent.
    for _ in 0..8 {
        for pid in &all {
            if !tree.contains(pid) && stat(*pid).is_some_and(|it| tree.contains(&it.0)) {
                tree.push(*pid);
            }
        }
    }
    tree.into_iter().filter_map(|pid| Some((pid, stat(pid)?.1))).collect()
}

async fn wait_until_exited(tree: &[(u32, String)]) {
    let lives = |(pid, start): &(u32, String)| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> =
            text.rsplit_once(')').map_or(Vec::new(), |it| it.1.split_whitespace().collect());
        fields.get(19).is_some_and(|it| it == start) && fields.first() != Some(&"Z")
    };
    for _ in 0..2400 {
        if !tree.iter().any(lives) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("still running: {:?}", tree.iter().filter(|it| lives(it)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_killed_at_every_call_repeats_no_completed_call() {
    let provider = provider(offline::model()).await;
    let dir = tempfile::tempdir().unwrap();
    let task = "Read data from users.json and print usernames";
    let begin = [
        "run", task, "--provider", "openai-compatible", "--model", "coder", "--out", "session",
        "--pool", "2", "--timeout", "60", "--quiet",
    ];
    let resume = ["resume", "session", "--json"];
    let mut pids = Vec::new();
    for call in 1..=3 {
        let held = provider.hold(call);
        let line = if call == 1 { begin.as_slice() } else { &resume };
        let mut child = start(&provider, line, dir.path());
        held.await;
        let pid = child.id().unwrap();
        pids.push(pid);
        // The guests in the pool are child processes of the session's process and exit together with it. The pool
        // starts them in the background, so they may not exist yet.
        let tree = loop {
            let tree = process_tree(pid);
            if tree.len() > 1 {
                break tree;
            }
            assert!(child.try_wait().unwrap().is_none(), "the session has ended");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        child.kill().await.unwrap();
        provider.wait_for_disconnect().await;
        wait_until_exited(&tree).await;
        assert_eq!(provider.answered(), call - 1);
    }
    provider.release();
    let output = start(&provider, &resume, dir.path()).wait_with_output().await.unwrap();
    assert!(output.status.success());
    // The provider answers three calls (two programs and a critique), as in a session that is not killed.
    assert_eq!(provider.answered(), 3);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &printed["report"];
    assert_eq!((&report["success"], &report["attempts"]), (&Value::from(true), &Value::from(2)));
    assert_eq!(report["output"], "alice\nbob\ncharlie\n");
    // The second process executed the first program before it was killed. No later process repeats this execution.
    let sandbox = report["history"][0]["execution"]["sandbox"].as_str().unwrap();
    assert!(sandbox.starts_with(&format!("agent-sandbox-{}-", pids[1])), "{sandbox} {pids:?}");

    // The event log has no duplicates and no gaps.
    let text = fs::read_to_string(dir.path().join("session/events.jsonl")).unwrap();
    let events: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    let attempt = ["generating", "code", "executing", "execution_result"];
    let wanted = [
        &["started"][..],
        &attempt,
        &["critiquing", "critique", "retrying"],
        &attempt,
        &["complete"],
    ];
    assert_eq!(kinds, wanted.concat());
    assert!(events.iter().enumerate().all(|(idx, it)| it["seq"] == idx + 1));

    // Resuming a complete session calls no model.
    let again = start(&provider, &resume, dir.path()).wait_with_output().await.unwrap();
    assert_eq!((again.status.success(), provider.answered()), (true, 3));
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["report"], *report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_within_an_unfinished_node_are_journaled() {
    let answers = ["I would rather not.".into(), program("print(6 * 7)")];
    let provider = provider(scripted(answers, critic(true))).await;
    let dir = tempfile::tempdir().unwrap();
    // The first answer cannot be parsed; the process is killed during the second call.
    let held = provider.hold(2);
    let line =
        "run x --provider openai-compatible --model coder --out session --timeout 60".split(' ');
    let line: Vec<&str> = line.collect();
    let mut child = start(&provider, &line, dir.path());
    held.await;
    child.kill().await.unwrap();
    provider.wait_for_disconnect().await;
    provider.release();
    let ended = start(&provider, &["resume", "session"], dir.path()).wait_with_output().await;
    assert_eq!(ended.unwrap().stdout, b"42\n");
    assert_eq!(provider.answered(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spending_before_a_crash_counts_against_the_budget() {
    // Each call uses about a thousand tokens and reserves up to four thousand more.
    let provider = provider(scripted([program("raise ValueError('no')")], critic(true))).await;
    let dir = tempfile::tempdir().unwrap();
    let line = "run x --provider openai-compatible --model coder --pool 1 --timeout 60".split(' ');
    let line: Vec<&str> = line.collect();
    let budget = ["--quiet", "--out", "session", "--max-tokens", BUDGET];
    let whole = ["--quiet", "--json", "--out", "whole", "--max-tokens", BUDGET];
    let output = start(&provider, &[&line[..], &whole].concat(), dir.path());
    let output = output.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = printed["report"]["message"].as_str().unwrap();
    assert!(message.starts_with("the budget is spent"), "{printed:#}");
    let calls = provider.answered();
    assert!((2..6).contains(&calls), "{calls}");

    // A session that is killed during each call makes the same number of calls.
    for call in calls + 1..=2 * calls {
        let held = provider.hold(call);
        let first = [&line[..], &budget].concat();
        let line = if call == calls + 1 { &first[..] } else { &["resume", "session"] };
        let mut child = start(&provider, line, dir.path());
        held.await;
        child.kill().await.unwrap();
        provider.wait_for_disconnect().await;
    }
    provider.release();
    let ended = start(&provider, &["resume", "session"], dir.path()).wait_with_output().await;
    assert_eq!((ended.unwrap().status.code(), provider.answered()), (Some(3), 2 * calls));

    // With a larger budget, the session continues and repeats no completed call.
    let further = ["resume", "session", "--json", "--max-tokens", "1000000"];
    let output = start(&provider, &further, dir.path()).wait_with_output().await.unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["report"]["message"], "max retries exceeded", "{printed:#}");
    assert_eq!(printed["report"]["attempts"], 3);
    let paid = printed["report"]["calls"].as_array().unwrap().len();
    assert!(paid > calls && provider.answered() == calls + paid, "{paid} {calls}");
}

const BUDGET: &str = "7000";

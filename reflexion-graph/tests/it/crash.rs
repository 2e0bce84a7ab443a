//! A session that is killed at each of its calls pays for none twice, and leaves no sandbox behind.

use std::{fs, path::Path, process::Stdio, time::Duration};

use llm::{Llm, testkit::Provider};
use reflexion_graph::offline;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::{
    PROGRAM,
    sessions::{critic, program, scripted},
};

async fn provider(model: Llm) -> Provider {
    Provider::start(model).await.unwrap()
}

fn start(provider: &Provider, line: &[&str], folder: &Path) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(line).current_dir(folder).env("OPENAI_COMPATIBLE_BASE_URL", provider.address());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

/// A process and all that descend from it, with the times of their starts: numbers of processes are used again.
fn family(root: u32) -> Vec<(u32, String)> {
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
    let mut family = vec![root];
    // A child may have a smaller number than its parent.
    for _ in 0..8 {
        for pid in &all {
            if !family.contains(pid) && stat(*pid).is_some_and(|it| family.contains(&it.0)) {
                family.push(*pid);
            }
        }
    }
    family.into_iter().filter_map(|pid| Some((pid, stat(pid)?.1))).collect()
}

async fn all_gone(family: &[(u32, String)]) {
    let lives = |(pid, start): &(u32, String)| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> =
            text.rsplit_once(')').map_or(Vec::new(), |it| it.1.split_whitespace().collect());
        fields.get(19).is_some_and(|it| it == start) && fields.first() != Some(&"Z")
    };
    for _ in 0..600 {
        if !family.iter().any(lives) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("these still live: {:?}", family.iter().filter(|it| lives(it)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_at_every_call_pays_for_nothing_twice() {
    let provider = provider(offline::model().unwrap()).await;
    let folder = tempfile::tempdir().unwrap();
    let task = "Read data from users.json and print usernames";
    let begin = [
        "run",
        task,
        "--provider",
        "openai-compatible",
        "--model",
        "coder",
        "--out",
        "session",
        "--pool",
        "2",
        "--quiet",
    ];
    let go_on = ["resume", "session", "--json"];
    let mut pids = Vec::new();
    for call in 1..=3 {
        let held = provider.hold(call);
        let line = if call == 1 { begin.as_slice() } else { &go_on };
        let mut child = start(&provider, line, folder.path());
        held.await;
        let pid = child.id().unwrap();
        pids.push(pid);
        let family = family(pid);
        // The guests of its pool are there, and go with it.
        assert!(family.len() > 1, "{family:?}");
        child.kill().await.unwrap();
        provider.forget().await;
        all_gone(&family).await;
        assert_eq!(provider.answered(), call - 1);
    }
    provider.release();
    let output = start(&provider, &go_on, folder.path()).wait_with_output().await.unwrap();
    assert!(output.status.success());
    // Two programs and a critique: as many as of a session that nobody kills.
    assert_eq!(provider.answered(), 3);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &said["report"];
    assert_eq!((&report["success"], &report["attempts"]), (&Value::from(true), &Value::from(2)));
    assert_eq!(report["output"], "alice\nbob\ncharlie\n");
    // The first program was run by the second process, before it was killed, and by nobody after it.
    let sandbox = report["history"][0]["execution"]["sandbox"].as_str().unwrap();
    assert!(sandbox.starts_with(&format!("agent-sandbox-{}-", pids[1])), "{sandbox} {pids:?}");

    // The list of events has each thing once, numbered without gaps.
    let text = fs::read_to_string(folder.path().join("session/events.jsonl")).unwrap();
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

    // Once more: it is at its end, and nothing is asked.
    let again = start(&provider, &go_on, folder.path()).wait_with_output().await.unwrap();
    assert_eq!((again.status.success(), provider.answered()), (true, 3));
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["report"], *report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_within_a_node_is_kept_too() {
    let words = llm::Rule::text("I would rather not.").when_prompt("This is attempt 1 of");
    let provider = provider(scripted([words, program("print(6 * 7)")])).await;
    let folder = tempfile::tempdir().unwrap();
    // The first answer cannot be read; the process is killed while it asks for a better one.
    let held = provider.hold(2);
    let line =
        ["run", "x", "--provider", "openai-compatible", "--model", "coder", "--out", "session"];
    let mut child = start(&provider, &line, folder.path());
    held.await;
    child.kill().await.unwrap();
    provider.forget().await;
    provider.release();
    let ended = start(&provider, &["resume", "session"], folder.path()).wait_with_output().await;
    assert_eq!(ended.unwrap().stdout, b"42\n");
    assert_eq!(provider.answered(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_paid_before_a_crash_counts_in_the_budget() {
    // Each call uses about a thousand tokens, and can come to four thousand more.
    let provider = provider(scripted([program("raise ValueError('no')"), critic(true)])).await;
    let folder = tempfile::tempdir().unwrap();
    let line = ["run", "x", "--provider", "openai-compatible", "--model", "coder", "--pool", "1"];
    let budget = ["--quiet", "--out", "session", "--max-tokens", BUDGET];
    let whole = ["--quiet", "--json", "--out", "whole", "--max-tokens", BUDGET];
    let output = start(&provider, &[&line[..], &whole].concat(), folder.path());
    let output = output.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = said["report"]["message"].as_str().unwrap();
    assert!(message.starts_with("the budget is spent"), "{said:#}");
    let calls = provider.answered();
    assert!((2..6).contains(&calls), "{calls}");

    // The same, killed at each call: as many are answered, and no more.
    for call in calls + 1..=2 * calls {
        let held = provider.hold(call);
        let first = [&line[..], &budget].concat();
        let line = if call == calls + 1 { &first[..] } else { &["resume", "session"] };
        let mut child = start(&provider, line, folder.path());
        held.await;
        child.kill().await.unwrap();
        provider.forget().await;
    }
    provider.release();
    let ended = start(&provider, &["resume", "session"], folder.path()).wait_with_output().await;
    assert_eq!((ended.unwrap().status.code(), provider.answered()), (Some(3), 2 * calls));

    // With more it goes further from where it stood, and pays for nothing twice.
    let further = ["resume", "session", "--json", "--max-tokens", "1000000"];
    let output = start(&provider, &further, folder.path()).wait_with_output().await.unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["report"]["message"], "max retries exceeded", "{said:#}");
    assert_eq!(said["report"]["attempts"], 3);
    let paid = said["report"]["calls"].as_array().unwrap().len();
    assert!(paid > calls && provider.answered() == calls + paid, "{paid} {calls}");
}

const BUDGET: &str = "7000";

//! Runs of the program with a provider over HTTP: kills a run at every model call and checks that no call is paid for
//! twice.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

mod canned;

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use llm::{Llm, Reply, Request, Scripted, testkit::FakeProvider};
use test_support::is_nightly;
use tokio::process::{Child, Command};

const CONSULTING: &str = env!("CARGO_BIN_EXE_consulting");

/// Returns a configuration for runs with this number of moves and three rounds.
fn config(moves: usize) -> String {
    let mut config: toml::Table = toml::from_str(consulting_graph::config::DEFAULT).unwrap();
    config["rounds"] = 3.into();
    config["moves_per_analyst"] = 1.into();
    config["analysts"].as_array_mut().unwrap().truncate(moves);
    toml::to_string(&config).unwrap()
}

fn start(args: &[&str], folder: &Path, provider: &FakeProvider) -> Child {
    let mut command = Command::new(CONSULTING);
    command.args(args).arg("--quiet").current_dir(folder);
    command.env("OPENAI_COMPATIBLE_BASE_URL", provider.address());
    command.kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(folder: &Path, provider: &FakeProvider) -> Child {
    let args = ["run", "NVDA", "--out", "run", "--config", "config.toml", "--as-of", "2026-03-01"];
    let models = ["--provider", "openai-compatible", "--model", "board"];
    start(&[&args[..], &models].concat(), folder, provider)
}

async fn report(folder: &Path) -> String {
    let text = tokio::fs::read_to_string(folder.join("run/report.md")).await.unwrap();
    // Drops the lines that contain the run id, which differs between runs.
    text.lines().filter(|it| !it.contains("nvda-")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn weak_api_keys_do_not_corrupt_a_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), config(2)).unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    for key in ["e", "findings"] {
        let args = ["run", "NVDA", "--out", key, "--config", "config.toml", "--quiet"];
        let mut command = Command::new(CONSULTING);
        command.args(args).args(["--provider", "openai-compatible", "--model", "board"]);
        command.current_dir(folder.path()).env("OPENAI_COMPATIBLE_BASE_URL", provider.address());
        let output = command.env("OPENAI_COMPATIBLE_API_KEY", key).output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(errors.contains("fewer than 8 characters"), "{errors}");
        let report = std::fs::read_to_string(folder.path().join(key).join("report.md")).unwrap();
        assert!(report.contains("Run a small pilot") && !report.contains("[secret]"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rescore_requests_only_the_scores_that_could_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), config(2)).unwrap();
    let is_weak = Arc::new(AtomicBool::new(true));
    let weak = is_weak.clone();
    let model = Llm::new(Scripted::new("board", move |request: &Request| {
        let is_d1 = request.system.as_ref().is_some_and(|it| it.contains("growth strategist"));
        if weak.load(Ordering::Relaxed) && is_d1 && request.prompt().contains("Metrics:") {
            Reply::from("I liked it.")
        } else {
            canned::answer(request)
        }
    }));
    let provider = FakeProvider::start(model).await.unwrap();
    let first = run(folder.path(), &provider).wait_with_output().await.unwrap();
    assert_eq!(first.status.code(), Some(4), "{}", String::from_utf8_lossy(&first.stderr));
    let calls = provider.answered();

    is_weak.store(false, Ordering::Relaxed);
    let rescore = || start(&["rescore", "run"], folder.path(), &provider).wait_with_output();
    let second = rescore().await.unwrap();
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    // One decision maker scores two moves.
    assert_eq!(provider.answered() - calls, 2);

    let third = rescore().await.unwrap();
    let errors = String::from_utf8_lossy(&third.stderr);
    assert_eq!(third.status.code(), Some(2), "{errors}");
    assert!(errors.contains("all scores of the run could be read"), "{errors}");
    assert_eq!(provider.answered() - calls, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_at_every_call_pays_for_no_call_twice() {
    // Every call requires a restart of the program, so only nightly runs debate two moves at the same time.
    let moves = if is_nightly() { 2 } else { 1 };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), config(moves)).unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    let calls_file = folder.path().join("run/calls.jsonl");
    provider.sync_with_recording(&calls_file);
    let whole = run(folder.path(), &provider).wait_with_output().await.unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let calls = provider.answered();
    // Expects calls for 2 documents and 2 inferences, one call of an analyst and 19 calls in a debate for each move,
    // and possibly retries.
    let expected_calls = 4 + 20 * moves;
    let events = std::fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
    assert!((expected_calls..=expected_calls + 6).contains(&calls), "{calls} calls:\n{events}");
    let expected = report(folder.path()).await;

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), config(moves)).unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    provider.sync_with_recording(&folder.path().join("run/calls.jsonl"));
    // Kills the run whenever a call reaches the provider, before the provider answers.
    let mut child = run(folder.path(), &provider);
    let mut kills = 0;
    let child = loop {
        tokio::select! {
            () = provider.hold(kills + 1) => {}
            status = child.wait() => {
                status.unwrap();
                break child;
            },
        }
        child.kill().await.unwrap();
        provider.wait_for_disconnect().await;
        kills += 1;
        // When the resumed run repeats this call, the provider answers it and holds the next one.
        child = start(&["resume", "run"], folder.path(), &provider);
    };
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((kills, provider.answered()), (calls, calls));
    assert_eq!(report(folder.path()).await, expected);
}

//! Tests of the command line: output, files and exit status.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

#[path = "cli/incomplete.rs"]
mod incomplete;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

use consulting_graph::config::DEFAULT;
use llm::RecordingDecoder;
use sandbox_vm::image::Images;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A working directory with a small configuration.
struct Workspace(TempDir);

impl Workspace {
    /// Creates a workspace with one analyst who proposes two moves.
    fn new() -> Self {
        Self::of_size(1, 2, 9)
    }

    /// Creates a workspace with this number of analysts, of moves per analyst and of rounds.
    fn of_size(analysts: usize, moves: i64, rounds: i64) -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        let mut config: toml::Table = DEFAULT.parse().unwrap();
        config.insert("rounds".to_owned(), rounds.into());
        config.insert("moves_per_analyst".to_owned(), moves.into());
        config["analysts"].as_array_mut().unwrap().truncate(analysts);
        fs::write(workspace.path("small.toml"), config.to_string()).unwrap();
        workspace
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
        for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER"] {
            command.env_remove(format!("{key}_API_KEY"));
        }
        command.current_dir(self.0.path()).args(line.split_whitespace());
        command
    }

    /// Executes a small run.
    fn run_small(&self, options: &str) -> Output {
        let rounds = if options.contains("--rounds") { "" } else { "--rounds 2" };
        let sandbox = if options.contains("--sandbox") { "" } else { "--sandbox in-process" };
        self.run(&format!(
            "run ACME --config small.toml --as-of 2026-11-15 {sandbox} {rounds} {options}"
        ))
    }
}

#[test]
fn debates_can_share_sandboxes() {
    let workspace = Workspace::new();
    let log = |options: &str| {
        let line = format!(
            "run ACME --config small.toml --as-of 2026-11-15 --rounds 1 --sandbox in-process --quiet {options}"
        );
        let output = workspace.command(&line).env("RUST_LOG", "sandbox_vm=debug").output().unwrap();
        check(&output, 0).1
    };
    let pool = "acquired a sandbox from the pool";
    let kept = "kept a sandbox for the next invocation";
    // Each of the two debates logs one line.
    for (options, of_pool, of_kept) in
        [("--out a", 0, 0), ("--out b --pool 1", 2, 0), ("--out c --keep-alive", 0, 2)]
    {
        let log = log(options);
        assert_eq!(
            (log.matches(pool).count(), log.matches(kept).count()),
            (of_pool, of_kept),
            "{log}"
        );
    }
    let ranking = |run: &str| {
        let report = read(&workspace.path(run).join("report.json"));
        serde_json::from_str::<Value>(&report).unwrap()["ranking"].clone()
    };
    assert!(
        ranking("a").is_object() && ranking("a") == ranking("b") && ranking("a") == ranking("c")
    );
    let both = workspace.run("run ACME --pool 1 --keep-alive");
    check_fails(&both, 2, &["--pool", "cannot be used with"]);
}

#[track_caller]
fn check(output: &Output, code: i32) -> (String, String) {
    let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    (out, err)
}

/// Checks the exit status of a failed command, and that its error message contains every text in `expected`.
#[track_caller]
fn check_fails(output: &Output, code: i32, expected: &[&str]) {
    let (out, err) = check(output, code);
    assert_eq!(out, "");
    for words in expected {
        assert!(err.contains(words), "`{words}` is not in:\n{err}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Returns the lines of a recording, decompressed.
fn read_recording(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let mut decoder = RecordingDecoder::default();
    let decode = |it: &[u8]| decoder.decode(it).unwrap().into_owned();
    let lines: Vec<Vec<u8>> = bytes.trim_ascii_end().split(|it| *it == b'\n').map(decode).collect();
    String::from_utf8(lines.join(&b'\n')).unwrap()
}

#[test]
fn a_complete_run_prints_its_result_again_when_resumed() {
    let workspace = Workspace::new();
    let (out, err) = check(&workspace.run_small("--out made"), 0);
    for words in ["SYNTHETIC DATA", "SCRIPTED MODEL", "/120", "made/report.html"] {
        assert!(out.contains(words), "`{words}` is not in:\n{out}");
    }
    assert!(err.contains("(isolation: off, NOT ISOLATED)"), "{err}");
    assert!(err.contains("m2 scored"), "{err}");
    assert!(!err.contains('\x1b'), "{err}");
    assert!(read(&workspace.path("made/config.toml")).contains("\nrounds = 2\n"));

    let report = read(&workspace.path("made/report.json"));
    let (again, err) = check(&workspace.run("resume made --quiet"), 0);
    assert_eq!((again, err.as_str()), (out, ""));
    assert_eq!(read(&workspace.path("made/report.json")), report);
}

#[test]
fn a_run_of_an_included_company_uses_its_filed_figures() {
    let workspace = Workspace::new();
    let options = "--config small.toml --rounds 1 --sandbox in-process --quiet";
    let (out, _) = check(&workspace.run(&format!("run NVDA --out made {options}")), 0);
    let source = "from the snapshot included in this program";
    for words in ["NVIDIA CORP (NVDA)", source, "SCRIPTED MODEL"] {
        assert!(out.contains(words), "`{words}` is not in:\n{out}");
    }
    assert!(!out.contains("SYNTHETIC"), "{out}");
    assert!(read(&workspace.path("made/financial.md")).contains("$215,938m"));
    assert!(read(&workspace.path("made/report.md")).contains(source));

    let synthetic = format!("run NVDA --data synthetic --out invented {options}");
    let (out, _) = check(&workspace.run(&synthetic), 0);
    assert!(out.contains("SYNTHETIC DATA"), "{out}");
    assert!(!read(&workspace.path("invented/financial.md")).contains("NVIDIA"));
}

#[test]
fn json_output_is_one_document_and_runs_are_found_by_id() {
    let workspace = Workspace::new();
    let (out, err) = check(&workspace.run_small("--json --quiet --seed 7"), 0);
    assert_eq!(err, "");
    let document: Value = serde_json::from_str(&out).unwrap();
    let folder = document["folder"].as_str().unwrap();
    assert!(folder.starts_with("runs/acme-2"), "{folder}");
    assert_eq!(document["report"]["ranking"]["recommended"].as_array().unwrap().len(), 2);
    let stored: Value =
        serde_json::from_str(&read(&workspace.path(folder).join("report.json"))).unwrap();
    assert_eq!(document["report"], stored);

    let id = folder.strip_prefix("runs/").unwrap();
    let (events, _) = check(&workspace.run(&format!("events {id} --after 1")), 0);
    let events: Vec<Value> = events.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(events.first().map(|it| &it["seq"]), Some(&2.into()));
    assert_eq!(events.last().map(|it| &it["type"]), Some(&"pipeline_complete".into()));
}

#[test]
fn without_a_terminal_reviews_are_read_from_a_file() {
    let workspace = Workspace::new();
    let (out, err) = check(&workspace.run_small("--review --out made --quiet"), 3);
    assert_eq!(out, "");
    assert!(err.contains("consulting resume made --reviewed FILE"), "{err}");

    let mut review: Value =
        serde_json::from_str(&read(&workspace.path("made/review.json"))).unwrap();
    let moves = review["moves"].as_array_mut().unwrap();
    assert_eq!(moves.len(), 2);
    moves.truncate(1);
    moves[0]["title"] = "Do nothing for a year".into();
    fs::write(workspace.path("mine.json"), review.to_string()).unwrap();
    fs::write(workspace.path("none.json"), r#"{"moves": []}"#).unwrap();
    check_fails(
        &workspace.run("resume made --reviewed none.json"),
        1,
        &["none.json", "at least one"],
    );
    let (out, _) = check(&workspace.run("resume made --json --quiet"), 3);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["folder"], "made");
    assert_eq!(document["review"]["moves"].as_array().unwrap().len(), 2);
    let (out, _) =
        check(&workspace.run("resume made --reviewed mine.json --sandbox in-process"), 0);
    assert!(out.contains("Recommended (of 1 move)\n"), "{out}");
    assert!(out.contains("Do nothing for a year"), "{out}");
}

#[test]
fn usage_errors_and_failures_have_different_exit_statuses() {
    let workspace = Workspace::new();
    fs::write(workspace.path("bad.toml"), DEFAULT.replace("rounds = 10", "rounds = 0")).unwrap();
    fs::create_dir(workspace.path("full")).unwrap();
    fs::write(workspace.path("full/file"), "").unwrap();
    for (line, code, expected) in [
        ("run ../../etc", 2, ["TICKER", "as in BRK.B"]),
        ("run NVDA --config bad.toml", 2, ["rounds", "must be between 1 and 50"]),
        ("run NVDA --config nowhere.toml", 1, ["nowhere.toml", "No such file"]),
        ("run NVDA --data edgar", 2, ["--data edgar", "--data-dir"]),
        ("run NVDA --out full", 2, ["full", "not empty"]),
        ("run NVDA --provider nobody --model x", 2, ["nobody", "anthropic"]),
        ("run NVDA --data-dir full --out n", 1, ["file in ", "consulting resume n"]),
        ("run NVDA --isolation off --sandbox jail", 2, ["--isolation off", "--sandbox jail"]),
        ("run NVDA --isolation required", 2, ["'required'", "vm (a virtual machine), kernel"]),
        ("serve --isolation preferred", 2, ["omit the option", "process (a confined process"]),
        ("run NVDA --isolation high", 2, ["'high'", "or off"]),
        ("run NVDA --provider no\u{202e}body\u{9b}31m", 2, ["`nobody31m`", "anthropic"]),
        ("run", 2, ["TICKER", "Usage"]),
        ("resume nothing", 2, ["nothing", "runs/"]),
        ("resume full", 2, ["full", "run.json"]),
    ] {
        check_fails(&workspace.run(line), code, &expected);
    }
    assert!(!workspace.path("runs").exists(), "rejected commands create no files");
}

#[test]
fn commands_without_a_run_print_their_output() {
    let workspace = Workspace::new();
    for (line, expected) in [
        ("config", "moves_per_analyst = 3"),
        ("graph", "\"sandbox_debate, runs in a sandbox\""),
        ("graph", "critic_individual"),
        ("graph --debate --format dot", "critic_individual"),
        ("graph --format json", "\"layer_2_reduce\""),
        ("doctor", "Debates would run in:"),
        ("run --help", "--max-cost"),
        ("run --help", "without control groups, only vm limits memory"),
    ] {
        let (out, _) = check(&workspace.run(line), 0);
        assert!(out.contains(expected), "{line}: {out}");
    }
}

#[test]
fn runs_are_replayed_forked_and_compared() {
    let workspace = Workspace::new();
    check(&workspace.run_small("--out first --quiet"), 0);
    let (out, _) = check(&workspace.run("replay first"), 0);
    assert!(out.contains("identical results"), "{out}");

    let fork = "fork first --at m2:r2 --set critic.name=Auditor --sandbox in-process";
    check(&workspace.run(&format!("{fork} --only --out second --quiet")), 0);
    assert!(read(&workspace.path("second/config.toml")).contains("name = \"Auditor\""));
    let (out, _) = check(&workspace.run("diff first second"), 0);
    assert!(out.contains("critic.name") && out.contains("Auditor"), "{out}");
    let (out, _) = check(&workspace.run("diff first second --json"), 0);
    let diff: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(diff["settings"][0]["path"], "critic.name");

    check_fails(&workspace.run("fork first --at m2:r9 --out third"), 2, &["m2:r9"]);
    check_fails(
        &workspace.run(&format!("{fork} --set critic.nose=long --out fourth")),
        2,
        &["nose"],
    );
    check_fails(&workspace.run("fork first --at layer_7"), 2, &["layer_7", "m4:r5"]);
}

#[test]
fn a_replay_may_use_another_sandbox() {
    let workspace = Workspace::new();
    let (doctor, _) = check(&workspace.run("doctor"), 0);
    // The run uses the strongest sandbox, and the replay uses the in-process one. On a machine without isolation, both
    // are the same.
    let strongest = doctor.split("would run in: ").nth(1).unwrap().split(' ').next().unwrap();
    check(&workspace.run_small(&format!("--out here --quiet --sandbox {strongest}")), 0);
    let (out, _) = check(&workspace.run("replay here --sandbox in-process"), 0);
    assert!(out.contains("identical results"), "{out}");
    let report = read(&workspace.path("here/report.json"));
    assert!(report.contains(&format!("\"backend\":\"{strongest}\"")));

    // A replay also compares the isolation in the report.
    let other = report.replace(&format!("\"backend\":\"{strongest}\""), "\"backend\":\"castle\"");
    fs::write(workspace.path("here/report.json"), other).unwrap();
    check_fails(&workspace.run("replay here --quiet"), 1, &["differ from", "report.json"]);
}

/// Environment variable that makes the test below fail, instead of being skipped, if KVM is not available.
const REQUIRE_KVM: &str = "GRAPH_REQUIRE_KVM";

#[test]
fn debates_run_in_vms_without_any_option_if_the_machine_has_kvm() {
    let kvm = fs::File::options().read(true).write(true).open("/dev/kvm");
    if let Err(error) = kvm.map_err(|error| format!("cannot open /dev/kvm: {error}")) {
        return test_support::skip(REQUIRE_KVM, &error);
    }
    let workspace = Workspace::new();
    let line = "run NVDA --config small.toml --as-of 2026-11-15 --rounds 3 --out here --plain";
    let (out, err) = check(&workspace.run(line), 0);
    assert!(out.contains(" (isolation: vm)"), "{out}");
    assert!(err.contains("(kvm-process, isolation: vm)"), "{err}");
    assert!(!err.contains("host's kernel"), "{err}");
    let report: Value = serde_json::from_str(&read(&workspace.path("here/report.json"))).unwrap();
    assert_eq!(report["outcome"]["isolation"], json!({ "backend": "kvm-process", "level": "vm" }));
    let manifest: Value = serde_json::from_str(&read(&workspace.path("here/run.json"))).unwrap();
    assert_eq!(
        (&manifest["used_isolation"], manifest.get("required_isolation")),
        (&json!("vm"), None)
    );
    // A sandbox that meets the requirement is used, and the result does not depend on it.
    check(&workspace.run("replay here --sandbox in-process"), 0);
}

/// Environment variable that makes the test below fail, instead of being skipped, if there are no images for micro VMs.
const REQUIRE_MICROVM: &str = "GRAPH_REQUIRE_MICROVM";

#[test]
fn a_debate_runs_in_a_micro_vm() {
    if let Err(error) = Images::open_default() {
        return test_support::skip(REQUIRE_MICROVM, &error.to_string());
    }
    let workspace = Workspace::new();
    let config = read(&workspace.path("small.toml"));
    let single = config.replace("moves_per_analyst = 2", "moves_per_analyst = 1");
    assert_ne!(single, config);
    fs::write(workspace.path("small.toml"), single).unwrap();
    let options = "--sandbox microvm --isolation vm --rounds 2 --out here --plain";
    let (out, err) = check(&workspace.run_small(options), 0);
    assert!(out.contains(" (isolation: vm)"), "{out}");
    assert!(err.contains("(microvm, isolation: vm)"), "{err}");
    let report: Value = serde_json::from_str(&read(&workspace.path("here/report.json"))).unwrap();
    assert_eq!(report["outcome"]["isolation"], json!({ "backend": "microvm", "level": "vm" }));
    // The result does not depend on the sandbox.
    check(&workspace.run("replay here --sandbox in-process"), 0);
}

#[test]
fn sharing_the_hosts_kernel_is_reported_with_advice() {
    let workspace = Workspace::new();
    let (_, err) =
        check(&workspace.run_small("--out here --plain --sandbox jail --isolation process"), 0);
    let line = "debates run with jail (isolation: process, shares the host's kernel); ";
    let lines: Vec<&str> = err.lines().filter(|it| it.contains(line)).collect();
    // Without a control group, the line also says that memory is not bounded.
    assert!(matches!(lines[..], [it] if it.ends_with("for VMs, omit --sandbox")), "{err}");
    assert!(!err.to_lowercase().contains("isolated"), "{err}");
    let manifest: Value = serde_json::from_str(&read(&workspace.path("here/run.json"))).unwrap();
    assert_eq!(manifest["required_isolation"], "process");
    assert_eq!(manifest["used_isolation"], "process");
    let stronger = workspace.run_small("--out vm --quiet --sandbox jail --isolation vm");
    check_fails(&stronger, 1, &["isolation `vm` is required", "jail: provides only"]);
    let report = read(&workspace.path("here/report.md"));
    assert!(report.contains("jail (isolation: process, shares the host's kernel"), "{report}");
}

/// Returns a command that runs like `command`, but cannot open `/dev/kvm`. Returns `None` if this user can open it and
/// cannot hide it.
fn without_kvm(command: Command) -> Option<Command> {
    if fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return Some(command);
    }
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // Not even root can open a device on a `nodev` mount.
    let script = "mount --bind /dev/kvm /dev/kvm && mount -o remount,bind,nodev /dev/kvm && exec \"$0\" \"$@\"";
    let mut hidden = Command::new("unshare");
    hidden
        .args(["--mount", "sh", "-c", script])
        .arg(command.get_program())
        .args(command.get_args());
    hidden.current_dir(command.get_current_dir()?);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => hidden.env(name, value),
            None => hidden.env_remove(name),
        };
    }
    Some(hidden)
}

#[test]
fn without_kvm_the_next_best_sandbox_is_used_and_a_command_for_vms_is_named() {
    let workspace = Workspace::new();
    let run = |options: &str| {
        let line = format!("run ACME --config small.toml --as-of 2026-11-15 --rounds 1 {options}");
        without_kvm(workspace.command(&line)).map(|mut it| it.output().unwrap())
    };
    let Some(output) = run("--out here --plain") else {
        return test_support::report_skipped("a machine without KVM; only root can hide /dev/kvm");
    };
    let (_, err) = check(&output, 0);
    let lines: Vec<&str> = err.lines().filter(|it| it.contains("debates run with ")).collect();
    let [line] = lines.as_slice() else { panic!("{err}") };
    assert!(line.contains("host's kernel)"), "{line}");
    assert!(line.contains("for VMs, run `sudo "), "{line}");
    let report: Value = serde_json::from_str(&read(&workspace.path("here/report.json"))).unwrap();
    let level = &report["outcome"]["isolation"]["level"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_gvisor = std::env::split_paths(&path).any(|it| it.join("runsc").is_file());
    assert_eq!(*level, if has_gvisor { "kernel" } else { "process" });
    // A required level fails closed.
    let required = run("--out vm --quiet --isolation vm").unwrap();
    check_fails(&required, 1, &["isolation `vm` is required", "/dev/kvm"]);
}

#[test]
fn plans_estimate_calls_and_cost() {
    let workspace = Workspace::new();
    let (out, _) = check(&workspace.run("plan NVDA --rounds 3 --json"), 0);
    let plan: Value = serde_json::from_str(&out).unwrap();
    // Expects calls for two documents, two inferences, five analysts and 15 debates. Each debate has one opening and,
    // for each of three decision makers, three answers, two replies of the critic and one scoring call.
    assert_eq!(plan["all"]["calls"], 2 + 2 + 5 + 15 * (1 + 18));
    assert!(plan["all"]["dollars"].as_f64().unwrap() > 0.0);
    let (out, _) = check(&workspace.run("plan NVDA"), 0);
    assert!(out.contains("924"), "{out}");
}

#[test]
fn spending_limits_apply_to_resumed_runs() {
    let workspace = Workspace::new();
    let tokens = |out: &str| -> u64 {
        let document: Value = serde_json::from_str(out).unwrap();
        let spending = document["report"]["outcome"]["spending"].as_array().unwrap();
        let number = |it: &Value, name: &str| it[name].as_u64().unwrap();
        spending.iter().map(|it| number(it, "input_tokens") + number(it, "output_tokens")).sum()
    };
    let whole = tokens(&check(&workspace.run_small("--out whole --json --quiet --rounds 4"), 0).0);
    let limit = whole / 2;
    let limited = format!("--review --out made --quiet --rounds 4 --max-tokens {limit}");
    check(&workspace.run_small(&limited), 3);
    let reviewed = "resume made --reviewed made/review.json --json --sandbox in-process";
    // Both debates end early, because they share a budget that does not cover them.
    let (out, err) = check(&workspace.run(reviewed), 4);
    assert!(err.contains("The run is incomplete"), "{err}");
    assert!(err.contains(&format!("Spending limit of the whole run: {limit} tokens.")), "{err}");
    assert!(tokens(&out) <= limit, "{} of {limit}", tokens(&out));
    check(&workspace.run("replay made"), 0);

    // A second review is rejected, because the run is no longer waiting for one.
    let kept = read(&workspace.path("made/reviewed.json"));
    fs::write(workspace.path("other.json"), kept.replace("m1", "m7")).unwrap();
    let other = "resume made --reviewed other.json";
    check_fails(&workspace.run(other), 2, &["is not waiting for a review"]);
    assert_eq!(read(&workspace.path("made/reviewed.json")), kept);
}

#[test]
fn following_events_ends_when_the_run_stops() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("full")).unwrap();
    fs::write(workspace.path("full/file"), "").unwrap();
    check(&workspace.run("run NVDA --data-dir full --out failed --quiet"), 1);
    check(&workspace.run_small("--review --out waits --quiet"), 3);
    for (run, last) in [("failed", "pipeline_error"), ("waits", "agent_complete")] {
        let mut follower = workspace.command(&format!("events {run} --follow"));
        let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(240);
        while follower.try_wait().unwrap().is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
        // Has no effect if the process has already exited.
        follower.kill().unwrap();
        let (out, _) = check(&follower.wait_with_output().unwrap(), 0);
        assert!(out.lines().last().is_some_and(|it| it.contains(last)), "{run}: {out}");
    }
}

/// Starts a model provider that echoes the API key of each request in its answer, and that states a context window as
/// llama.cpp's server does. Returns the URL of the provider.
fn key_echoing_provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut key, mut length, mut line) = (String::new(), 0, String::new());
            while stream.read_line(&mut line).is_ok_and(|it| it > 2) {
                let (name, value) = line.split_once(':').unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "authorization" => key = value.trim().replace("Bearer ", ""),
                    "content-length" => length = value.trim().parse().unwrap(),
                    _ => {}
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let message = json!({ "role": "assistant", "content": format!("It is {key}.") });
            let body = json!({ "id": "1", "object": "chat.completion", "created": 0, "model": "m",
                "default_generation_settings": { "n_ctx": 8000 },
                "choices": [{ "index": 0, "finish_reason": "stop", "message": message }] });
            let body = body.to_string();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn api_keys_from_the_environment_are_never_written_to_disk() {
    const KEY: &str = "open-sesame-4711";
    let workspace = Workspace::new();
    let mut run = workspace.command("run NVDA --provider openai-compatible --model m --out made");
    run.env("OPENAI_COMPATIBLE_BASE_URL", key_echoing_provider())
        .env("OPENAI_COMPATIBLE_API_KEY", KEY);
    // The run fails, because the provider's answers contain no findings.
    check_fails(&run.output().unwrap(), 1, &["no finding could be read"]);
    let recording = read_recording(&workspace.path("made/calls.jsonl"));
    assert!(recording.contains("It is [secret].") && !recording.contains(KEY), "{recording}");
    for entry in fs::read_dir(workspace.path("made")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let is_there = bytes.windows(KEY.len()).any(|it| it == KEY.as_bytes());
        assert!(!is_there, "{}", path.display());
    }
}

#[test]
fn the_context_window_that_a_server_states_is_stored_and_used() {
    let workspace = Workspace::new();
    let mut run = workspace.command("run NVDA --provider openai-compatible --model m --out made");
    run.env("OPENAI_COMPATIBLE_BASE_URL", key_echoing_provider());
    check_fails(&run.output().unwrap(), 1, &["no finding could be read"]);
    let manifest: Value = serde_json::from_str(&read(&workspace.path("made/run.json"))).unwrap();
    assert_eq!(manifest["choice"]["context_tokens"], json!({ "openai-compatible/m": 8000 }));
    // The documents do not fit, so they are read in chunks.
    let recording = read_recording(&workspace.path("made/calls.jsonl"));
    assert!(recording.contains("which is all you see of it"), "{recording}");
}

#[test]
fn ablations_are_executed_resumed_and_reported() {
    let workspace = Workspace::new();
    let arms = "--arms one-call,critique";
    let (out, _) = check(
        &workspace.run(&format!("ablate NVDA {arms} --moves 12 --repeats 1 --out made --quiet")),
        0,
    );
    for words in ["SCRIPTED CRITICS", "Does one independent critique help?", "made/report.html"] {
        assert!(out.contains(words), "`{words}` is not in:\n{out}");
    }
    let report = read(&workspace.path("made/report.md"));
    assert!(report.contains("# Does debating help? NVDA"), "{report}");
    let (out, _) = check(&workspace.run("ablate --resume made --json --quiet"), 0);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["ablation"]["complete_pairs"], 12);
    assert_eq!(read(&workspace.path("made/report.md")), report);
}

#[test]
fn invalid_ablations_are_rejected_with_advice() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("empty")).unwrap();
    for (line, expected) in [
        ("ablate", "<TICKER>"),
        ("ablate NVDA --arms one-call,shouting", "unknown arm `shouting`"),
        ("ablate NVDA --arms one-call,placebo", "add debate-3 to --arms"),
        ("ablate NVDA --moves 1", "1 is not in 2..=1000"),
        ("ablate NVDA --provider ollama --model m", "--max-cost or --max-tokens"),
        ("ablate --resume empty", "settings.json"),
        ("ablate --resume empty --moves 3", "cannot be used with"),
        ("ablate NVDA --resume empty", "cannot be used with"),
        ("ablate --resume empty --seed 1", "cannot be used with"),
        ("ablate --resume empty --answer-ms 1", "cannot be used with"),
        ("ablate --resume empty --config c.toml", "cannot be used with"),
        ("ablate --resume empty --as-of 2026-01-01", "cannot be used with"),
        ("ablate --resume empty --data synthetic", "cannot be used with"),
        ("ablate NVDA --out .", "is not empty"),
    ] {
        check_fails(&workspace.run(line), 2, &[expected]);
    }
}

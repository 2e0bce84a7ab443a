//! The program itself: what it prints where, and how it ends.
#![expect(
    clippy::unwrap_used,
    reason = "tests, though much of it stands in functions of their own"
)]

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
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder to run in, with a small configuration: one analyst, two moves, two rounds.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let mut config: toml::Table = DEFAULT.parse().unwrap();
        config.insert("rounds".to_owned(), 9.into());
        config.insert("moves_per_analyst".to_owned(), 2.into());
        config["analysts"].as_array_mut().unwrap().truncate(1);
        fs::write(place.path("small.toml"), config.to_string()).unwrap();
        place
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

    /// The small run.
    fn small(&self, more: &str) -> Output {
        let rounds = if more.contains("--rounds") { "" } else { "--rounds 2" };
        let sandbox = if more.contains("--sandbox") { "" } else { "--sandbox in-process" };
        self.run(&format!(
            "run NVDA --config small.toml --as-of 2026-11-15 {sandbox} {rounds} {more}"
        ))
    }
}

#[track_caller]
fn check(output: &Output, code: i32) -> (String, String) {
    let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    (out, err)
}

/// Checks that something fails, and that what is said about it names all of this.
#[track_caller]
fn check_fails(output: &Output, code: i32, said: &[&str]) {
    let (out, err) = check(output, code);
    assert_eq!(out, "");
    for words in said {
        assert!(err.contains(words), "`{words}` is not in:\n{err}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_run_says_what_it_came_to_and_can_be_resumed_when_it_is_done() {
    let place = Place::new();
    let (out, err) = check(&place.small("--out made"), 0);
    for words in ["SYNTHETIC DATA", "A scripted model wrote this", "/120", "made/report.html"] {
        assert!(out.contains(words), "`{words}` is not in:\n{out}");
    }
    assert!(err.contains("WITHOUT ISOLATION"), "{err}");
    assert!(err.contains("m2 scored"), "{err}");
    assert!(!err.contains('\x1b'), "{err}");
    assert!(read(&place.path("made/config.toml")).contains("\nrounds = 2\n"));

    let report = read(&place.path("made/report.json"));
    let (again, err) = check(&place.run("resume made --quiet"), 0);
    assert_eq!((again, err.as_str()), (out, ""));
    assert_eq!(read(&place.path("made/report.json")), report);
}

#[test]
fn json_is_one_document_and_the_run_lies_under_its_id() {
    let place = Place::new();
    let (out, err) = check(&place.small("--json --quiet --seed 7"), 0);
    assert_eq!(err, "");
    let document: Value = serde_json::from_str(&out).unwrap();
    let folder = document["folder"].as_str().unwrap();
    assert!(folder.starts_with("runs/nvda-2"), "{folder}");
    assert_eq!(document["report"]["ranking"]["recommended"].as_array().unwrap().len(), 2);
    let stored: Value =
        serde_json::from_str(&read(&place.path(folder).join("report.json"))).unwrap();
    assert_eq!(document["report"], stored);

    let id = folder.strip_prefix("runs/").unwrap();
    let (events, _) = check(&place.run(&format!("events {id} --after 1")), 0);
    let events: Vec<Value> = events.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(events.first().map(|it| &it["seq"]), Some(&2.into()));
    assert_eq!(events.last().map(|it| &it["type"]), Some(&"pipeline_complete".into()));
}

#[test]
fn a_review_waits_for_a_file_where_nobody_can_be_asked() {
    let place = Place::new();
    let (out, err) = check(&place.small("--review --out made --quiet"), 3);
    assert_eq!(out, "");
    assert!(err.contains("consulting resume made --reviewed FILE"), "{err}");

    let mut review: Value = serde_json::from_str(&read(&place.path("made/review.json"))).unwrap();
    let moves = review["moves"].as_array_mut().unwrap();
    assert_eq!(moves.len(), 2);
    moves.truncate(1);
    moves[0]["title"] = "Do nothing for a year".into();
    fs::write(place.path("mine.json"), review.to_string()).unwrap();
    fs::write(place.path("none.json"), r#"{"moves": []}"#).unwrap();
    check_fails(&place.run("resume made --reviewed none.json"), 1, &["none.json", "at least one"]);
    let (out, _) = check(&place.run("resume made --json --quiet"), 3);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["folder"], "made");
    assert_eq!(document["review"]["moves"].as_array().unwrap().len(), 2);
    let (out, _) = check(&place.run("resume made --reviewed mine.json --sandbox in-process"), 0);
    assert!(out.contains("Recommended, of 1 move\n"), "{out}");
    assert!(out.contains("Do nothing for a year"), "{out}");
}

#[test]
fn what_was_typed_wrongly_is_told_apart_from_what_failed() {
    let place = Place::new();
    fs::write(place.path("bad.toml"), DEFAULT.replace("rounds = 10", "rounds = 0")).unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), "").unwrap();
    for (line, code, said) in [
        ("run ../../etc", 2, ["TICKER", "like BRK.B"]),
        ("run NVDA --config bad.toml", 2, ["rounds", "give 1 to 50"]),
        ("run NVDA --config nowhere.toml", 1, ["nowhere.toml", "No such file"]),
        ("run NVDA --data edgar", 2, ["--data edgar", "--data-dir"]),
        ("run NVDA --out full", 2, ["full", "not empty"]),
        ("run NVDA --provider nobody --model x", 2, ["nobody", "anthropic"]),
        ("run NVDA --data-dir full --out n", 1, ["file in ", "consulting resume n"]),
        ("run NVDA --isolation off --sandbox jail", 2, ["--isolation off", "--sandbox jail"]),
        ("run NVDA --provider no\u{202e}body\u{9b}31m", 2, ["`nobody31m`", "anthropic"]),
        ("run", 2, ["TICKER", "Usage"]),
        ("resume nothing", 2, ["nothing", "runs/"]),
        ("resume full", 2, ["full", "run.json"]),
    ] {
        check_fails(&place.run(line), code, &said);
    }
    assert!(!place.path("runs").exists(), "what is refused leaves nothing behind");
}

#[test]
fn what_needs_no_run_is_printed() {
    let place = Place::new();
    for (line, said) in [
        ("config", "moves_per_analyst = 3"),
        ("graph", "sandbox_orchestrator"),
        ("graph --debate --format dot", "critic_individual"),
        ("graph --format json", "\"layer_2_reduce\""),
        ("doctor", "Debates would run in:"),
        ("run --help", "--max-cost"),
    ] {
        let (out, _) = check(&place.run(line), 0);
        assert!(out.contains(said), "{line}: {out}");
    }
}

#[test]
fn a_run_is_repeated_branched_off_from_and_compared() {
    let place = Place::new();
    check(&place.small("--out first --quiet"), 0);
    let (out, _) = check(&place.run("replay first"), 0);
    assert!(out.contains("came to the same"), "{out}");

    let fork = "fork first --at m2:r2 --set critic.name=Auditor --sandbox in-process";
    check(&place.run(&format!("{fork} --only --out second --quiet")), 0);
    assert!(read(&place.path("second/config.toml")).contains("name = \"Auditor\""));
    let (out, _) = check(&place.run("diff first second"), 0);
    assert!(out.contains("critic.name") && out.contains("Auditor"), "{out}");
    let (out, _) = check(&place.run("diff first second --json"), 0);
    let diff: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(diff["settings"][0]["path"], "critic.name");

    check_fails(&place.run("fork first --at m2:r9 --out third"), 2, &["m2:r9"]);
    check_fails(&place.run(&format!("{fork} --set critic.nose=long --out fourth")), 2, &["nose"]);
    check_fails(&place.run("fork first --at layer_7"), 2, &["layer_7", "m4:r5"]);
}

#[test]
fn a_replay_needs_no_sandbox_of_the_runs_kind() {
    let place = Place::new();
    let (doctor, _) = check(&place.run("doctor"), 0);
    // Where nothing isolates, both are the same.
    let strongest = doctor.split("would run in: ").nth(1).unwrap().split(' ').next().unwrap();
    check(&place.small(&format!("--out here --quiet --sandbox {strongest}")), 0);
    let (out, _) = check(&place.run("replay here --sandbox in-process"), 0);
    assert!(out.contains("came to the same"), "{out}");
    let report = read(&place.path("here/report.json"));
    assert!(report.contains(&format!("\"backend\": \"{strongest}\"")));

    // What the report says of it is compared like everything else.
    let other = report.replace(&format!("\"backend\": \"{strongest}\""), "\"backend\": \"castle\"");
    fs::write(place.path("here/report.json"), other).unwrap();
    check_fails(&place.run("replay here --quiet"), 1, &["differs", "report.json"]);
}

#[test]
fn a_plan_costs_nothing_and_says_what_a_run_would() {
    let place = Place::new();
    let (out, _) = check(&place.run("plan NVDA --rounds 3 --json"), 0);
    let plan: Value = serde_json::from_str(&out).unwrap();
    // Two documents, two inferences, five analysts, and 15 debates of one opening and 3 · (3 + 2 + 1) more calls.
    assert_eq!(plan["all"]["calls"], 2 + 2 + 5 + 15 * (1 + 18));
    assert!(plan["all"]["dollars"].as_f64().unwrap() > 0.0);
    let (out, _) = check(&place.run("plan NVDA"), 0);
    assert!(out.contains("924"), "{out}");
}

#[test]
fn a_limit_holds_until_another_is_told() {
    let place = Place::new();
    let tokens = |out: &str| -> u64 {
        let document: Value = serde_json::from_str(out).unwrap();
        let spending = document["report"]["outcome"]["spending"].as_array().unwrap();
        let number = |it: &Value, name: &str| it[name].as_u64().unwrap();
        spending.iter().map(|it| number(it, "input_tokens") + number(it, "output_tokens")).sum()
    };
    let whole = tokens(&check(&place.small("--out whole --json --quiet --rounds 4"), 0).0);
    let limit = whole / 2;
    let limited = format!("--review --out made --quiet --rounds 4 --max-tokens {limit}");
    check(&place.small(&limited), 3);
    let reviewed = "resume made --reviewed made/review.json --json --sandbox in-process";
    // It does not reach for the second move.
    let (out, err) = check(&place.run(reviewed), 4);
    assert!(err.contains("1 of 2 moves has no score"), "{err}");
    assert!(err.contains(&format!("may spend {limit} tokens.")), "{err}");
    assert!(tokens(&out) <= limit, "{} of {limit}", tokens(&out));
    check(&place.run("replay made"), 0);

    // It waits no more.
    let kept = read(&place.path("made/reviewed.json"));
    fs::write(place.path("other.json"), kept.replace("m1", "m7")).unwrap();
    let other = "resume made --reviewed other.json";
    check_fails(&place.run(other), 2, &["does not wait for a review"]);
    assert_eq!(read(&place.path("made/reviewed.json")), kept);
}

#[test]
fn who_follows_a_run_is_not_kept_waiting_when_it_stops() {
    let place = Place::new();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), "").unwrap();
    check(&place.run("run NVDA --data-dir full --out failed --quiet"), 1);
    check(&place.small("--review --out waits --quiet"), 3);
    for (run, last) in [("failed", "pipeline_error"), ("waits", "agent_complete")] {
        let mut follower = place.command(&format!("events {run} --follow"));
        let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(30);
        while follower.try_wait().unwrap().is_none() && Instant::now() < patience {
            sleep(Duration::from_millis(20));
        }
        // Nothing happens to one that has ended.
        follower.kill().unwrap();
        let (out, _) = check(&follower.wait_with_output().unwrap(), 0);
        assert!(out.lines().last().is_some_and(|it| it.contains(last)), "{run}: {out}");
    }
}

/// A provider that answers every call with the key it was called with.
fn indiscreet() -> String {
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
fn a_key_in_the_environment_is_written_nowhere() {
    const KEY: &str = "open-sesame-4711";
    let place = Place::new();
    let mut run = place.command("run NVDA --provider openai-compatible --model m --out made");
    run.env("OPENAI_COMPATIBLE_BASE_URL", indiscreet()).env("OPENAI_COMPATIBLE_API_KEY", KEY);
    // Nothing can be concluded from such documents.
    check_fails(&run.output().unwrap(), 1, &["no finding can be read"]);
    assert!(read(&place.path("made/calls.jsonl")).contains("It is [secret]."));
    for entry in fs::read_dir(place.path("made")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let is_there = bytes.windows(KEY.len()).any(|it| it == KEY.as_bytes());
        assert!(!is_there, "{}", path.display());
    }
}

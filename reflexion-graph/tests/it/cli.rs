//! Tests the command-line program.

use std::{fs, path::Path, process::Output, time::Duration};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

use crate::PROGRAM;

async fn start(dir: &Path, line: &[&str]) -> Output {
    start_with(dir, line, &[]).await
}

async fn start_with(dir: &Path, line: &[&str], variables: &[(&str, &str)]) -> Output {
    output(&mut command(dir, line, variables)).await
}

fn command(dir: &Path, line: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER"] {
        command.env_remove(format!("{key}_API_KEY"));
    }
    command.envs(variables.iter().copied()).args(line).current_dir(dir).kill_on_drop(true);
    if matches!(line.first(), Some(&"run" | &"bench")) && !line.contains(&"--timeout") {
        // On a busy machine, starting the interpreter can take longer than the default timeout.
        command.args(["--timeout", "60"]);
    }
    command
}

async fn output(command: &mut Command) -> Output {
    // The timeout ends a server that was started by mistake and would never exit.
    timeout(Duration::from_secs(300), command.output()).await.unwrap().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn run_prints_the_output_and_names_the_scripted_model() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--log", "--trace", "trace.html"];
    let output = start(dir.path(), &line).await;
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "55\n"));
    let shown = text(&output.stderr);
    for words in [
        "a SCRIPTED model answers",
        "A scripted model wrote this program",
        "[attempt 1] running the program in a sandbox",
        "Agent workflow started task=\"Calculate fibonacci(10)\"",
        "Code generated task=\"Calculate fibonacci(10)\" code_lines=6 confidence=0.95 provider=\"scripted\"",
        "Sandbox execution started container_id=",
        "Execution complete exit_code=0 duration_ms=",
        "Agent workflow completed success=true attempts=1",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(fs::read_to_string(dir.path().join("trace.html")).unwrap().contains("generate"));
    let session = fs::read_dir(dir.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read_to_string(session.join("program.py")).unwrap().contains("def fibonacci"));
}

#[tokio::test]
async fn exit_codes_reflect_tests_expectations_and_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("right.py"), "assert fibonacci(20) == 6765\n").unwrap();
    fs::write(dir.path().join("wrong.py"), "assert fibonacci(20) == 1\n").unwrap();
    let task = "Calculate fibonacci(10)";
    for (more, code) in [
        (vec!["--test", "right.py", "--expect", "55"], 0),
        (vec!["--test", "wrong.py", "--max-attempts", "1"], 3),
        (vec!["--expect", "56", "--max-attempts", "1"], 3),
        (vec!["--timeout", "0"], 2),
        (vec!["--memory", "1"], 2),
        (vec!["--provider", "nobody"], 2),
        (vec!["--test", "missing.py"], 1),
        (vec!["--max-tokens", "100"], 3),
        (vec!["--max-cost", "0.01"], 0),
        (vec!["--out", "."], 2),
    ] {
        let line = [&["run", task, "--pool", "1", "--quiet"][..], &more].concat();
        let output = start(dir.path(), &line).await;
        assert_eq!(output.status.code(), Some(code), "{more:?} {}", text(&output.stderr));
    }
    let line = ["run", task, "--pool", "1", "--quiet", "--json"];
    let document: Value = serde_json::from_slice(&start(dir.path(), &line).await.stdout).unwrap();
    assert_eq!(
        (&document["scripted"], &document["report"]["output"]),
        (&true.into(), &"55\n".into())
    );
    assert_eq!(document["report"]["model"], "scripted/coder");
}

#[tokio::test]
async fn dotenv_is_read_without_printing_secrets() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".env"), "# keys\nGROQ_API_KEY='gsk-secret'\n").unwrap();
    let output = start(dir.path(), &["doctor"]).await;
    assert!(text(&output.stdout).contains("Model provider: groq"));
    assert!(!(text(&output.stdout) + &text(&output.stderr)).contains("gsk-secret"));
    fs::write(dir.path().join(".env"), "GROQ_API_KEY gsk-secret\n").unwrap();
    let output = start(dir.path(), &["doctor"]).await;
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: line 1 of .env is not of the form NAME=value"), "{stderr}");
    assert!(!stderr.contains("gsk-secret"), "{stderr}");
    // Printing the version does not read the file.
    assert!(start(dir.path(), &["--version"]).await.status.success());
    // Variables for other programs are neither applied nor rejected.
    let others = "LD_PRELOAD=./evil.so\na-name.of=others\nPEM=\"one\ntwo\"\n";
    fs::write(dir.path().join(".env"), others).unwrap();
    let output = start(dir.path(), &["doctor"]).await;
    assert!(output.status.success());
    assert!(!text(&output.stderr).contains("evil.so"), "{}", text(&output.stderr));
    // A directory named `.env`, such as a Python virtual environment, is ignored.
    fs::remove_file(dir.path().join(".env")).unwrap();
    fs::create_dir(dir.path().join(".env")).unwrap();
    assert!(start(dir.path(), &["graph"]).await.status.success());
}

#[tokio::test]
async fn keys_are_not_sent_to_an_address_from_dotenv() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let theirs =
        format!("A=1\nOPENAI_BASE_URL=http://{address}/v1\nHTTPS_PROXY=http://{address}\n");
    fs::write(dir.path().join(".env"), theirs).unwrap();
    let mine = [("OPENAI_API_KEY", "sk-mine")];
    let output = start_with(dir.path(), &["run", "x", "--pool", "1"], &mine).await;
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: line 2 of .env sets OPENAI_BASE_URL"), "{stderr}");
    assert!(stderr.contains("remove the line") && !stderr.contains("sk-mine"), "{stderr}");
    assert!(listener.accept().is_err(), "the address was contacted");
}

#[tokio::test]
async fn missing_isolation_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "session", "--sandbox"];
    let output = start(dir.path(), &[&line[..], &["in-process"]].concat()).await;
    assert_eq!(text(&output.stdout), "55\n");
    let stderr = text(&output.stderr);
    for words in
        ["NOT ISOLATED: programs run directly on this", " ms, NOT ISOLATED", "ran on this machine"]
    {
        assert!(stderr.contains(words), "{words}\n{stderr}");
    }
    let events = fs::read_to_string(dir.path().join("session/events.jsonl")).unwrap();
    assert!(events.contains("\"isolation\":\"off\""), "{events}");
    // The warning is also printed if --json is set.
    let line = ["bench", "--only", "gcd", "--json", "--sandbox", "in-process"];
    assert!(text(&start(dir.path(), &line).await.stderr).contains("NOT ISOLATED"));
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "walls"];
    assert!(!text(&start(dir.path(), &line).await.stderr).contains("NOT ISOLATED"));
    let events = fs::read_to_string(dir.path().join("walls/events.jsonl")).unwrap();
    assert!(events.contains("\"isolation\":\"process\""), "{events}");
}

#[tokio::test]
async fn unbounded_memory_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "session"];
    let mut command = command(dir.path(), &line, &[]);
    let is_nobody = crate::run_as_nobody(&mut command, dir.path());
    let output = output(&mut command).await;
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), "55\n", "{stderr}");
    let read = |name: &str| fs::read_to_string(dir.path().join("session").join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    let is_bounded = result["history"][0]["execution"]["memory_bounded"].as_bool().unwrap();
    assert!(!(is_nobody && is_bounded), "{result}");
    let event = format!("\"memory_bounded\":{is_bounded}");
    assert!(read("events.jsonl").contains(&event), "{}", read("events.jsonl"));
    for words in [
        "jail: memory is NOT BOUNDED by a kernel",
        " ms, memory NOT BOUNDED",
        "Memory was NOT BOUNDED by a kernel while programs",
    ] {
        assert_eq!(stderr.contains(words), !is_bounded, "{words}\n{stderr}");
    }
}

#[tokio::test]
async fn programs_do_not_write_to_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    // The program of the second attempt at this problem writes a file.
    let line = ["bench", "--only", "config-file", "--sandbox"];
    for sandbox in ["in-process", "jail"] {
        let output = start(dir.path(), &[&line[..], &[sandbox]].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("by attempt 2: 1 of 1"), "{}", text(&output.stdout));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{sandbox}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_rejected_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("empty.toml"), "[[problem]]\nid = \"none\"\ntask = \" \"\n").unwrap();
    for (more, message) in [
        ("bench --max-attempts 4294967295", "but must be from 1 to 10"),
        ("bench --max-attempts 0", "but must be from 1 to 10"),
        ("bench --timeout nan", "the timeout is NaN seconds, but must be from 0.1 to 60 seconds"),
        (
            "bench --memory 99999999999999999",
            "the memory is 99999999999999999 MiB, but must be from 64",
        ),
        ("bench --problems empty.toml", "problem `none`: the task is empty"),
        ("serve --address 127.0.0.1:0 --timeout nan", "the timeout is NaN seconds, but must be"),
        ("serve --address 127.0.0.1:0 --max-attempts 99", "but must be from 1 to 10"),
        ("serve --address 127.0.0.1:0 --memory 1", "the memory is 1 MiB, but must be from 64"),
        ("serve --address 127.0.0.1:0 --pool 1", "create one with: openssl rand"),
        ("run x --model gpt", "specify its provider with --provider"),
        ("bench --model gpt", "specify its provider with --provider"),
        ("run x --provider nobody", "openai-compatible, scripted"),
        ("run x --provider openai-compatible --model m --max-cost 1", "limit the tokens"),
        ("resume nothing", "pass the directory"),
    ] {
        let line: Vec<&str> = more.split(' ').collect();
        let set = [
            ("OPENAI_COMPATIBLE_BASE_URL", "http://127.0.0.1:1/"),
            ("AGENT_SANDBOX_API_KEY", "short"),
        ];
        let output = start_with(dir.path(), &line, &set).await;
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), &*out), (Some(2), ""), "{more}: {error}");
        assert!(error.starts_with("error: ") && error.contains(message), "{more}: {error}");
    }
}

#[tokio::test]
async fn unwritable_trace_does_not_hide_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--quiet", "--trace"];
    let output = start(dir.path(), &[&line[..], &["nowhere/t.html"]].concat()).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: cannot access nowhere/t.html"),
        "{}",
        text(&output.stderr)
    );
    assert!(!dir.path().join("runs").exists(), "the session must not start");
    // The command fails if the trace file can be opened but not written; the program's output is still printed.
    let output = start(dir.path(), &[&line[..], &["/dev/full"]].concat()).await;
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), "55\n"));
    assert!(
        text(&output.stderr).contains("error: cannot access /dev/full"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test]
async fn session_continues_with_a_larger_budget() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "session"];
    let output = start(dir.path(), &[&line[..], &["--max-tokens", "100"]].concat()).await;
    assert_eq!(output.status.code(), Some(3));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("resume the session with a larger --max-tokens"), "{stderr}");
    // The session continues only with a sufficient budget, and is complete afterwards.
    for (more, code, printed) in [
        (&[][..], 3, ""),
        (&["--max-tokens", "200"], 3, ""),
        (&["--max-tokens", "100000"], 0, "55\n"),
        (&["--max-tokens", "100"], 0, "55\n"),
    ] {
        let output = start(dir.path(), &[&["resume", "session"], more].concat()).await;
        let (ended, out) = (output.status.code(), text(&output.stdout));
        assert_eq!((ended, &*out), (Some(code), printed), "{more:?} {}", text(&output.stderr));
    }
}

#[tokio::test]
async fn fork_repeats_an_attempt_and_keeps_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let json = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let task = "Read data from users.json and print usernames";
    let line = ["run", task, "--pool", "1", "--json", "--out", "first"];
    let first = json(&start(dir.path(), &line).await);
    let line = ["fork", "first", "--at", "2", "--json", "--out", "second"];
    let second = json(&start(dir.path(), &line).await);
    let (first, second) = (&first["report"], &second["report"]);
    assert_eq!((&second["success"], &second["attempts"]), (&true.into(), &2.into()));
    // Neither the first program nor its critique is requested again.
    assert_eq!(
        (first["calls"].as_array().unwrap().len(), &second["calls"][0]["role"]),
        (3, &"generator".into())
    );
    assert_eq!(second["calls"].as_array().unwrap().len(), 1);
    assert_eq!(second["history"][0], first["history"][0]);
    assert_ne!(
        second["history"][1]["execution"]["sandbox"],
        first["history"][1]["execution"]["sandbox"]
    );
    let events = fs::read_to_string(dir.path().join("second/events.jsonl")).unwrap();
    let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!((&first["seq"], &first["type"]), (&1.into(), &"started".into()), "{events}");
    for (more, message) in [
        (&["--at", "3"][..], "choose an attempt from 1 to 2"),
        (&["--at", "0"], "choose an attempt from 1 to 2"),
        (&["--at", "2", "--max-attempts", "1"], "allow at least 2"),
    ] {
        let output = start(dir.path(), &[&["fork", "first"], more].concat()).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{more:?} {}", text(&output.stderr));
    }
    // If all attempts failed, a fork may add another attempt.
    let line = ["run", task, "--pool", "1", "--quiet", "--max-attempts", "1", "--out", "failed"];
    assert_eq!(start(dir.path(), &line).await.status.code(), Some(3));
    let line = ["fork", "failed", "--at", "2", "--quiet"];
    assert_eq!(text(&start(dir.path(), &line).await.stdout), "alice\nbob\ncharlie\n");
}

#[tokio::test]
async fn graph_is_printed() {
    let output = start(Path::new("/tmp"), &["graph"]).await;
    let drawing = text(&output.stdout);
    for node in ["generate", "execute", "critique", "finalize"] {
        assert!(drawing.contains(node), "{drawing}");
    }
}

#[tokio::test]
async fn shell_programs_run() {
    use reflexion_graph::{Job, Limits, executor::Options, language::Shell};
    let options = Options { pool: 1, language: Box::new(Shell), ..Options::default() };
    let (executor, _folder) = crate::executor(options).await;
    let limits = Limits { timeout: crate::MAX_TIMEOUT, ..Limits::default() };
    let job = Job { limits, ..Job::new("x").tests("[ \"$(twice 4)\" = 8 ]") };
    let right = executor.run("twice() { echo $(($1 * 2)); }", &[], &job).await.unwrap();
    assert!(right.success(), "{right:?}");
    for wrong in ["twice() { echo $(($1 + 2)); }", "exit 0", "twice( {"] {
        assert!(!executor.run(wrong, &[], &job).await.unwrap().success(), "{wrong}");
    }
    executor.close().await;
}

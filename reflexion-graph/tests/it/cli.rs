//! The program, as a person uses it.

use std::{fs, path::Path, process::Output, time::Duration};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

use crate::PROGRAM;

async fn start(folder: &Path, line: &[&str]) -> Output {
    start_with(folder, line, &[]).await
}

async fn start_with(folder: &Path, line: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER"] {
        command.env_remove(format!("{key}_API_KEY"));
    }
    command.envs(variables.iter().copied()).args(line).current_dir(folder).kill_on_drop(true);
    // A server that starts where it should not would never end.
    timeout(Duration::from_secs(120), command.output()).await.unwrap().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_run_prints_what_the_program_prints_and_says_who_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--log", "--trace", "trace.html"];
    let output = start(folder.path(), &line).await;
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "55\n"));
    let shown = text(&output.stderr);
    for words in [
        "a SCRIPTED model answers",
        "A scripted model wrote this",
        "[attempt 1] running it in a sandbox",
        "Agent workflow started task=\"Calculate fibonacci(10)\"",
        "Code generated task=\"Calculate fibonacci(10)\" code_lines=6 confidence=0.95 provider=\"scripted\"",
        "Sandbox execution started container_id=",
        "Execution complete exit_code=0 duration_ms=",
        "Agent workflow completed success=true attempts=1",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(fs::read_to_string(folder.path().join("trace.html")).unwrap().contains("generate"));
    let session = fs::read_dir(folder.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read_to_string(session.join("program.py")).unwrap().contains("def fibonacci"));
}

#[tokio::test]
async fn tests_and_expectations_decide_and_exit_codes_tell() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("right.py"), "assert fibonacci(20) == 6765\n").unwrap();
    fs::write(folder.path().join("wrong.py"), "assert fibonacci(20) == 1\n").unwrap();
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
        let output = start(folder.path(), &line).await;
        assert_eq!(output.status.code(), Some(code), "{more:?} {}", text(&output.stderr));
    }
    let line = ["run", task, "--pool", "1", "--quiet", "--json"];
    let said: Value = serde_json::from_slice(&start(folder.path(), &line).await.stdout).unwrap();
    assert_eq!((&said["scripted"], &said["report"]["output"]), (&true.into(), &"55\n".into()));
    assert_eq!(said["report"]["model"], "scripted/coder");
}

#[tokio::test]
async fn a_file_env_is_read_and_its_secrets_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".env"), "# keys\nGROQ_API_KEY='gsk-secret'\n").unwrap();
    let output = start(folder.path(), &["doctor"]).await;
    assert!(text(&output.stdout).contains("Programs would be written by: groq"));
    assert!(!(text(&output.stdout) + &text(&output.stderr)).contains("gsk-secret"));
    fs::write(folder.path().join(".env"), "GROQ_API_KEY gsk-secret\n").unwrap();
    let output = start(folder.path(), &["doctor"]).await;
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.starts_with("error: line 1 of .env is not of the form NAME=value"), "{said}");
    assert!(!said.contains("gsk-secret"), "{said}");
    // Whoever asks how the program is used is told.
    assert!(start(folder.path(), &["--version"]).await.status.success());
    // What a folder's author writes there is not loaded into the program, nor is what is for others a mistake.
    let others = "LD_PRELOAD=./evil.so\na-name.of=others\nPEM=\"one\ntwo\"\n";
    fs::write(folder.path().join(".env"), others).unwrap();
    let output = start(folder.path(), &["doctor"]).await;
    assert!(output.status.success());
    assert!(!text(&output.stderr).contains("evil.so"), "{}", text(&output.stderr));
    // A virtual environment.
    fs::remove_file(folder.path().join(".env")).unwrap();
    fs::create_dir(folder.path().join(".env")).unwrap();
    assert!(start(folder.path(), &["graph"]).await.status.success());
}

#[tokio::test]
async fn a_key_is_not_sent_to_an_address_that_a_folder_names() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let theirs =
        format!("A=1\nOPENAI_BASE_URL=http://{address}/v1\nHTTPS_PROXY=http://{address}\n");
    fs::write(folder.path().join(".env"), theirs).unwrap();
    let mine = [("OPENAI_API_KEY", "sk-mine")];
    let output = start_with(folder.path(), &["run", "x", "--pool", "1"], &mine).await;
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.starts_with("error: line 2 of .env sets OPENAI_BASE_URL"), "{said}");
    assert!(said.contains("take the line out") && !said.contains("sk-mine"), "{said}");
    assert!(listener.accept().is_err(), "nobody came");
}

#[tokio::test]
async fn programs_without_walls_are_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "session", "--sandbox"];
    let output = start(folder.path(), &[&line[..], &["in-process"]].concat()).await;
    assert_eq!(text(&output.stdout), "55\n");
    let said = text(&output.stderr);
    for words in ["NOT ISOLATED: programs run on this", " ms, NOT ISOLATED", "ran on this machine"]
    {
        assert!(said.contains(words), "{words}\n{said}");
    }
    let events = fs::read_to_string(folder.path().join("session/events.jsonl")).unwrap();
    assert!(events.contains("\"isolated\":false"), "{events}");
    // Whatever else is to be shown.
    let line = ["bench", "--only", "gcd", "--json", "--sandbox", "in-process"];
    assert!(text(&start(folder.path(), &line).await.stderr).contains("NOT ISOLATED"));
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "walls"];
    assert!(!text(&start(folder.path(), &line).await.stderr).contains("NOT ISOLATED"));
    let events = fs::read_to_string(folder.path().join("walls/events.jsonl")).unwrap();
    assert!(events.contains("\"isolated\":true"), "{events}");
}

#[tokio::test]
async fn limits_are_looked_at_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.toml"), "[[problem]]\nid = \"none\"\ntask = \" \"\n")
        .unwrap();
    for (more, said) in [
        ("bench --max-attempts 4294967295", "attempts are from 1 to 10"),
        ("bench --max-attempts 0", "attempts are from 1 to 10"),
        ("bench --timeout nan", "the timeout is from 0.1 to 60 seconds"),
        ("bench --memory 99999999999999999", "the memory is from 64 to 2048 MiB"),
        ("bench --problems empty.toml", "problem `none`: the task is empty"),
        ("serve --address 127.0.0.1:0 --timeout nan", "the timeout is from"),
        ("serve --address 127.0.0.1:0 --max-attempts 99", "attempts are from 1 to 10"),
        ("serve --address 127.0.0.1:0 --memory 1", "the memory is from 64"),
        ("serve --address 127.0.0.1:0 --pool 1", "make one with: openssl rand"),
        ("run x --model gpt", "name its provider with --provider"),
        ("bench --model gpt", "name its provider with --provider"),
        ("run x --provider nobody", "openai-compatible, scripted"),
        ("run x --provider openai-compatible --model m --max-cost 1", "bound the tokens"),
        ("resume nothing", "give the folder"),
    ] {
        let line: Vec<&str> = more.split(' ').collect();
        let set = [
            ("OPENAI_COMPATIBLE_BASE_URL", "http://127.0.0.1:1/"),
            ("AGENT_SANDBOX_API_KEY", "short"),
        ];
        let output = start_with(folder.path(), &line, &set).await;
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), &*out), (Some(2), ""), "{more}: {error}");
        assert!(error.starts_with("error: ") && error.contains(said), "{more}: {error}");
    }
}

#[tokio::test]
async fn a_trace_that_cannot_be_written_hides_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--quiet", "--trace"];
    let output = start(folder.path(), &[&line[..], &["nowhere/t.html"]].concat()).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: nowhere/t.html"), "{}", text(&output.stderr));
    assert!(!folder.path().join("runs").exists(), "it is said before the session begins");
    // One that can be opened and not be written.
    let output = start(folder.path(), &[&line[..], &["/dev/full"]].concat()).await;
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), "55\n"));
    assert!(text(&output.stderr).contains("error: /dev/full"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_session_whose_budget_was_spent_goes_further_with_a_larger_one() {
    let folder = tempfile::tempdir().unwrap();
    let line = ["run", "Calculate fibonacci(10)", "--pool", "1", "--out", "session"];
    let output = start(folder.path(), &[&line[..], &["--max-tokens", "100"]].concat()).await;
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("resume the session with a larger --max-tokens"), "{said}");
    // It stays where it is until it is allowed more, and is done with it then.
    for (more, code, printed) in [
        (&[][..], 3, ""),
        (&["--max-tokens", "200"], 3, ""),
        (&["--max-tokens", "100000"], 0, "55\n"),
        (&["--max-tokens", "100"], 0, "55\n"),
    ] {
        let output = start(folder.path(), &[&["resume", "session"], more].concat()).await;
        let (ended, out) = (output.status.code(), text(&output.stdout));
        assert_eq!((ended, &*out), (Some(code), printed), "{more:?} {}", text(&output.stderr));
    }
}

#[tokio::test]
async fn a_session_is_begun_anew_from_one_of_its_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let json = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let task = "Read data from users.json and print usernames";
    let line = ["run", task, "--pool", "1", "--json", "--out", "first"];
    let first = json(&start(folder.path(), &line).await);
    let line = ["fork", "first", "--at", "2", "--json", "--out", "second"];
    let second = json(&start(folder.path(), &line).await);
    let (first, second) = (&first["report"], &second["report"]);
    assert_eq!((&second["success"], &second["attempts"]), (&true.into(), &2.into()));
    // What was paid for once is not paid for again: neither the first program nor its critique.
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
    let events = fs::read_to_string(folder.path().join("second/events.jsonl")).unwrap();
    assert!(events.starts_with("{\"seq\":1,\"type\":\"started\""), "{events}");
    for (more, said) in [
        (&["--at", "3"][..], "give one from 1 to 2"),
        (&["--at", "0"], "give one from 1 to 2"),
        (&["--at", "2", "--max-attempts", "1"], "allow 2 at least"),
    ] {
        let output = start(folder.path(), &[&["fork", "first"], more].concat()).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(said), "{more:?} {}", text(&output.stderr));
    }
    // Behind attempts that all failed there may be one more.
    let line = ["run", task, "--pool", "1", "--quiet", "--max-attempts", "1", "--out", "failed"];
    assert_eq!(start(folder.path(), &line).await.status.code(), Some(3));
    let line = ["fork", "failed", "--at", "2", "--quiet"];
    assert_eq!(text(&start(folder.path(), &line).await.stdout), "alice\nbob\ncharlie\n");
}

#[tokio::test]
async fn the_graph_is_drawn() {
    let output = start(Path::new("/tmp"), &["graph"]).await;
    let drawing = text(&output.stdout);
    for node in ["generate", "execute", "critique", "finalize"] {
        assert!(drawing.contains(node), "{drawing}");
    }
}

#[tokio::test]
async fn another_language_runs_too() {
    use reflexion_graph::{Job, language::Shell, workshop::Options};
    let options = Options { pool: 1, language: Box::new(Shell), ..Options::default() };
    let (workshop, _folder) = crate::workshop(options).await;
    let job = Job::new("x").tests("[ \"$(twice 4)\" = 8 ]");
    let right = workshop.run("twice() { echo $(($1 * 2)); }", &[], &job).await.unwrap();
    assert!(right.success(), "{right:?}");
    for wrong in ["twice() { echo $(($1 + 2)); }", "exit 0", "twice( {"] {
        assert!(!workshop.run(wrong, &[], &job).await.unwrap().success(), "{wrong}");
    }
    workshop.close().await;
}

//! The program, as a person uses it.

use std::{fs, path::Path, process::Output};

use serde_json::Value;
use tokio::process::Command;

use crate::PROGRAM;

async fn start(folder: &Path, line: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER"] {
        command.env_remove(format!("{key}_API_KEY"));
    }
    command.args(line).current_dir(folder).output().await.unwrap()
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
    fs::write(folder.path().join(".env"), "gsk-secret\n").unwrap();
    let output = start(folder.path(), &["doctor"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "error: line 1 of .env is not of the form NAME=value\n");
    // What a folder's author writes there is not loaded into the program.
    fs::write(folder.path().join(".env"), "LD_PRELOAD=./evil.so\n").unwrap();
    let output = start(folder.path(), &["doctor"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("error: line 1 of .env sets LD_PRELOAD"));
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

use std::{fs, time::Duration};

use graph_agents::{
    Agent, AiMessage, ScriptedModel, Status, ToolCall, ToolMessage,
    middleware::{AllowedCommands, FileSearch, Middleware, Shell, Size, Summarization},
};
use serde_json::{Value, json};

/// Calls a tool of the middleware in an agent and returns the result.
async fn call(middleware: impl Middleware + 'static, tool: &str, args: Value) -> ToolMessage {
    let first = AiMessage::new("").tool_call(ToolCall::new(tool, args, "c1"));
    let model = ScriptedModel::new([first, AiMessage::new("done")]);
    let agent = Agent::new(model).middleware(middleware).compile().unwrap();
    let outcome = agent.run("hi").await.unwrap();
    outcome.messages.iter().find_map(|it| it.as_tool().cloned()).unwrap()
}

async fn text(middleware: impl Middleware + 'static, tool: &str, args: Value) -> String {
    call(middleware, tool, args).await.content.text()
}

#[tokio::test]
async fn files_are_found_by_name_and_content() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("src/deep")).unwrap();
    fs::write(dir.path().join("src/main.rs"), "fn main() {}\nfn other() {}\n").unwrap();
    fs::write(dir.path().join("src/deep/lib.rs"), "fn lib() {}\n").unwrap();
    fs::write(dir.path().join("notes.md"), "fn in prose\n").unwrap();
    fs::write(dir.path().join("binary.rs"), b"fn\0").unwrap();
    let search = FileSearch::new(dir.path()).unwrap().trusted();
    let grep = |args: Value| text(search.clone(), "grep_search", args);
    assert_eq!(grep(json!({"pattern": "^fn"})).await, "/notes.md\n/src/deep/lib.rs\n/src/main.rs");
    let args = json!({"pattern": "^fn", "include": "*.rs", "output_mode": "count"});
    assert_eq!(grep(args).await, "/src/deep/lib.rs:1\n/src/main.rs:2");
    let args = json!({"pattern": "other", "path": "/src", "output_mode": "content"});
    assert_eq!(grep(args).await, "/src/main.rs:2:fn other() {}");
    assert_eq!(grep(json!({"pattern": "nowhere"})).await, "No matches found");
    assert!(grep(json!({"pattern": "("})).await.starts_with("invalid regular expression"));
    let glob = text(search.clone(), "glob_search", json!({"pattern": "*.rs", "path": "src"})).await;
    assert_eq!(glob, "/src/main.rs");
    assert_eq!(text(search, "glob_search", json!({"pattern": "*.py"})).await, "No files found");
}

#[cfg(unix)]
#[tokio::test]
async fn search_does_not_leave_its_directory() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
    let file = outside.path().join("secret.txt");
    std::os::unix::fs::symlink(&file, dir.path().join("file.txt")).unwrap();
    let search = FileSearch::new(dir.path()).unwrap().trusted();
    for path in ["/", "/link", "link", "..", "/../", outside.path().to_str().unwrap()] {
        let args = json!({"pattern": "secret", "path": path});
        assert_eq!(text(search.clone(), "grep_search", args).await, "No matches found", "{path}");
        let args = json!({"pattern": "**/*", "path": path});
        assert_eq!(text(search.clone(), "glob_search", args).await, "No files found", "{path}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn only_listed_programs_run() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
    let commands = AllowedCommands::new(dir.path(), ["cat", "ls"]).unwrap();
    let shell = |command: &str| {
        let shell = Shell::new(commands.clone()).max_lines(2).trusted();
        call(shell, "shell", json!({"command": command}))
    };
    let result = shell("ls 'a.txt'").await;
    assert_eq!((result.content.text().as_str(), result.status), ("a.txt\n", Status::Success));
    let result = shell("cat a.txt").await.content.text();
    assert_eq!(result, "one\ntwo\n[output truncated: the first 2 of 3 lines are shown]");
    let result = shell("cat missing").await;
    assert!(result.content.text().ends_with("Exit code: 1"), "{result:?}");
    let artifact = json!({"exit_code": 1, "session_ended": false});
    assert_eq!((result.status, result.artifact), (Status::Error, Some(artifact)));
    for refused in ["rm a.txt", "/bin/cat a.txt", "cat a.txt; rm a.txt", "cat a.txt | rm", "", "'"]
    {
        let result = shell(refused).await;
        assert!(result.content.text().starts_with("Refused: "), "{refused}: {result:?}");
        assert_eq!(result.status, Status::Error);
    }
    assert!(dir.path().join("a.txt").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn commands_have_a_time_limit_and_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let commands = AllowedCommands::new(dir.path(), ["sleep", "printenv"]).unwrap();
    let slow = Shell::new(commands.clone().timeout(Duration::from_millis(1)));
    let result = call(slow, "shell", json!({"command": "sleep 600"})).await;
    assert!(result.content.text().contains("did not finish within"), "{result:?}");
    let shell = Shell::new(commands).trusted();
    let names = text(shell, "shell", json!({"command": "printenv"})).await;
    assert!(names.lines().all(|it| it.starts_with("PATH=")), "{names}");
}

#[tokio::test]
async fn a_fraction_of_an_unknown_maximum_is_refused() {
    let summaries = ScriptedModel::new([AiMessage::new("a summary")]);
    let summarization = Summarization::new(summaries).trigger(Size::Fraction(0.8));
    let model = ScriptedModel::new([AiMessage::new("hello")]);
    let agent = Agent::new(model).middleware(summarization).compile().unwrap();
    let error = agent.run("hi").await.unwrap_err();
    assert!(format!("{error:?}").contains("set `max_input_tokens`"), "{error:?}");
}

//! Tests of shell sessions.

mod counting;

use std::{fs, sync::Arc, time::Duration};

use counting::Counting;
use graph_agents::{
    Agent, AiMessage, CompiledAgent, Message, ScriptedModel, Status, Tool, ToolCall, ToolMessage,
    messages_from_json,
    middleware::{AllowedCommands, HumanInTheLoop, ReviewRule, Shell, ToolErrorAnswers},
};
use graph_core::{Checkpointer, HistoryFilter, MemorySaver};
use serde_json::{Value, json};

/// Returns an agent whose model returns one message per list, with the calls in that list.
fn agent(shell: Arc<Shell>, calls: &[&[Value]]) -> Agent {
    let message = |calls: &&[Value]| AiMessage {
        tool_calls: calls
            .iter()
            .enumerate()
            .map(|(index, it)| ToolCall::new("shell", it.clone(), format!("c{index}")))
            .collect(),
        ..AiMessage::default()
    };
    let answers = calls.iter().map(message).chain([AiMessage::new("done")]);
    Agent::new(ScriptedModel::new(answers.collect::<Vec<_>>())).shared_middleware(shell)
}

fn results(messages: &[Message]) -> Vec<ToolMessage> {
    messages.iter().filter_map(Message::as_tool).cloned().collect()
}

/// Runs an agent whose model makes these calls one after the other.
async fn run(shell: Arc<Shell>, calls: &[Value]) -> Vec<ToolMessage> {
    let calls: Vec<_> = calls.chunks(1).collect();
    let agent: CompiledAgent = agent(shell, &calls).compile().unwrap();
    results(&agent.run("go").await.unwrap().messages)
}

fn command(text: &str) -> Value {
    json!({ "command": text })
}

/// Returns a message that makes one call.
fn call(name: &str, args: Value, id: &str) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new(name, args, id))
}

/// Returns an agent with a shell and with the tool `ask`, which interrupts the run.
fn asking(
    shell: Arc<Shell>,
    answers: Vec<AiMessage>,
    checkpointer: Arc<dyn Checkpointer>,
) -> CompiledAgent {
    let ask = Tool::dynamic("ask", "Asks.", json!({}), |_, runtime| async move {
        runtime.interrupt::<String>("Go on?")
    });
    let agent = Agent::new(ScriptedModel::new(answers)).tools([ask]).shared_middleware(shell);
    agent.shared_checkpointer(checkpointer).compile().unwrap()
}

fn texts(results: &[ToolMessage]) -> Vec<String> {
    results.iter().map(|it| it.content.text()).collect()
}

#[tokio::test]
async fn session_lasts_for_the_run() {
    let executor = Counting::default();
    let shell = executor.shell();
    let calls = [command("a"), command("b")];
    assert_eq!(texts(&run(shell.clone(), &calls).await), ["1 of session 1", "2 of session 1"]);
    assert_eq!(executor.events().last().unwrap(), "1: close");
    assert_eq!(texts(&run(shell, &calls).await), ["1 of session 2", "2 of session 2"]);
}

#[tokio::test]
async fn model_can_restart_the_session() {
    let executor = Counting::default();
    let calls = [command("a"), json!({"restart": true}), command("b"), json!({})];
    let results = run(executor.shell(), &calls).await;
    let texts = texts(&results);
    assert_eq!([&*texts[0], &*texts[2]], ["1 of session 1", "1 of session 2"]);
    assert_eq!((results[1].status, results[3].status), (Status::Success, Status::Error));
    assert!(executor.events().contains(&"1: close".to_owned()));
}

#[tokio::test]
async fn result_of_a_command_that_ends_the_session_reports_it() {
    let executor = Counting::default();
    let results = run(executor.shell(), &[command("a"), command("hang"), command("b")]).await;
    let expected =
        "Error: too slow.\n\nThe session has ended. The next command runs in a new session.";
    assert_eq!(texts(&results), ["1 of session 1", expected, "1 of session 2"]);
    assert_eq!(results[1].status, Status::Error);
    let artifact = json!({"exit_code": null, "session_ended": true});
    assert_eq!(results[1].artifact, Some(artifact));
    assert!(executor.events().contains(&"1: close".to_owned()));
}

#[tokio::test]
async fn startup_and_shutdown_commands_run_once_for_each_session() {
    let executor = Counting::default();
    let shell = Shell::new(executor.clone()).startup(["setup"]).shutdown(["fail"]).trusted();
    assert_eq!(texts(&run(Arc::new(shell), &[command("a")]).await), ["2 of session 1"]);
    let events = executor.events();
    let begun: Vec<_> = events.iter().filter(|it| !it.contains(": end")).collect();
    assert_eq!(begun, ["1: start", "1: begin setup", "1: begin a", "1: begin fail", "1: close"]);

    let shell = Shell::new(executor).startup(["fail"]);
    let broken = agent(Arc::new(shell), &[&[command("a")]]).compile().unwrap();
    let error = broken.run("go").await.unwrap_err().to_string();
    assert!(error.contains("the startup command `fail` failed: failed"), "{error}");
}

#[tokio::test]
async fn parallel_calls_run_one_after_the_other_in_one_session() {
    let executor = Counting::default();
    let calls = [command("a"), command("b"), command("c")];
    let agent = agent(executor.shell(), &[&calls]).compile().unwrap();
    let results = results(&agent.run("go").await.unwrap().messages);
    let mut texts = texts(&results);
    texts.sort();
    assert_eq!(texts, ["1 of session 1", "2 of session 1", "3 of session 1"]);
    let events = executor.events();
    for pair in events[1..events.len() - 1].chunks(2) {
        assert_eq!(pair[0].replace("begin", "end"), pair[1], "{events:?}");
    }
}

#[tokio::test]
async fn concurrent_runs_have_separate_sessions() {
    let shell = Counting::default().shell();
    let calls = [command("a"), command("b")];
    let (one, two) = tokio::join!(run(shell.clone(), &calls), run(shell, &calls));
    let mut texts = [texts(&one), texts(&two)];
    texts.sort();
    let expected =
        ["1", "2"].map(|it| [format!("1 of session {it}"), format!("2 of session {it}")]);
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn session_survives_an_interrupt() {
    let executor = Counting::default();
    let answers = vec![
        call("shell", command("a"), "c1"),
        call("ask", json!({}), "c2"),
        call("shell", command("b"), "c3"),
        AiMessage::new("done"),
    ];
    let agent = asking(executor.shell(), answers, Arc::new(MemorySaver::new()));
    let conversation = agent.conversation("a");
    assert_eq!(conversation.send("go").await.unwrap().interrupts.len(), 1);
    let outcome = conversation.resume("yes").await.unwrap();
    assert_eq!(results(&outcome.messages)[2].content.text(), "2 of session 1");
    assert_eq!(executor.events().last().unwrap(), "1: close");
}

#[cfg(unix)]
#[tokio::test]
async fn approved_command_runs_in_the_directory_that_a_parallel_call_has_chosen() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/a.txt"), "text\n").unwrap();
    let shell = Shell::new(AllowedCommands::new(dir.path(), ["cat"]).unwrap()).trusted();
    let rule = ReviewRule::all().when(|call| call.args["command"] != "cd sub");
    let calls = [command("cd sub"), command("cat a.txt")];
    // The review interrupts the run in the step in which `cd` runs.
    let agent = agent(Arc::new(shell), &[&calls, &calls[1..]])
        .middleware(HumanInTheLoop::new([("shell", rule)]).per_call())
        .checkpointer(MemorySaver::new());
    let conversation = agent.compile().unwrap().conversation("a");
    assert_eq!(conversation.send("go").await.unwrap().interrupts.len(), 1);
    let approve = json!({"type": "approve"});
    assert_eq!(conversation.resume(&approve).await.unwrap().interrupts.len(), 1);
    let outcome = conversation.resume(&approve).await.unwrap();
    assert_eq!(texts(&results(&outcome.messages)), ["<no output>", "text\n", "text\n"]);
}

#[tokio::test]
async fn calls_of_one_message_that_are_approved_one_by_one_share_a_session() {
    let review = HumanInTheLoop::new([("shell", ReviewRule::all())]).per_call();
    let agent = agent(Counting::default().shell(), &[&[command("a"), command("b")]])
        .middleware(review)
        .checkpointer(MemorySaver::new());
    let conversation = agent.compile().unwrap().conversation("a");
    let questions = conversation.send("go").await.unwrap().interrupts;
    for question in questions {
        let answer = [(question.id, json!({"type": "approve"}))];
        let _ = conversation.thread().resume_by_id(answer).await.unwrap();
    }
    let state = conversation.thread().state().await.unwrap().unwrap();
    let messages = messages_from_json(state.values.get("messages").unwrap()).unwrap();
    let mut texts = texts(&results(&messages));
    texts.sort();
    assert_eq!(texts, ["1 of session 1", "2 of session 1"]);
}

#[tokio::test]
async fn fork_from_an_earlier_checkpoint_runs_in_a_new_session_and_reports_it() {
    let executor = Counting::default();
    let answers = vec![
        call("shell", command("a"), "c1"),
        call("shell", command("b"), "c2"),
        call("ask", json!({}), "c3"),
        call("shell", command("c"), "c4"),
        AiMessage::new("done"),
    ];
    let agent = asking(executor.shell(), answers, Arc::new(MemorySaver::new()));
    let conversation = agent.conversation("a");
    assert_eq!(conversation.send("go").await.unwrap().interrupts.len(), 1);

    let thread = conversation.thread();
    let before_tools = thread.history(HistoryFilter::new().next("tools")).await.unwrap();
    // The second newest checkpoint precedes the command `b`, which therefore runs again.
    let outcome = thread.at(before_tools[1].id).proceed().await.unwrap();
    let messages = messages_from_json(outcome.state().get("messages").unwrap()).unwrap();
    let expected =
        "1 of session 2\n\nAn earlier session has ended. This command ran in a new session.";
    let expected = ["1 of session 1", expected, "2 of session 2"];
    assert_eq!(texts(&results(&messages)), expected);
    assert_eq!(executor.alive(), 0);
}

#[tokio::test]
async fn run_resumed_by_another_process_gets_a_new_session_and_reports_it() {
    let saver = Arc::new(MemorySaver::new());
    let build = |answers| asking(Counting::default().shell(), answers, saver.clone());
    let first = build(vec![call("shell", command("a"), "c1"), call("ask", json!({}), "c2")]);
    assert_eq!(first.conversation("a").send("go").await.unwrap().interrupts.len(), 1);
    let second = build(vec![
        call("shell", command("b"), "c3"),
        call("shell", command("c"), "c4"),
        AiMessage::new("done"),
    ]);
    let outcome = second.conversation("a").resume("yes").await.unwrap();
    let expected =
        "1 of session 1\n\nAn earlier session has ended. This command ran in a new session.";
    assert_eq!(texts(&results(&outcome.messages))[2..], [expected, "2 of session 1"]);
}

#[tokio::test]
async fn failed_command_releases_the_session() {
    let executor = Counting::default();
    let broken = agent(executor.shell(), &[&[command("a")], &[command("break")]]);
    let broken = broken.compile().unwrap();
    broken.run("go").await.unwrap_err();
    assert_eq!(executor.alive(), 0);
    assert_eq!(executor.events().last().unwrap(), "1: close");

    let shell = Shell::new(executor.clone()).startup(["break"]);
    let broken = agent(Arc::new(shell), &[&[command("a")]]).compile().unwrap();
    broken.run("go").await.unwrap_err();
    assert_eq!(executor.alive(), 0);
    assert_eq!(executor.events().last().unwrap(), "2: close");
}

#[tokio::test]
async fn result_after_a_failed_command_reports_that_the_session_has_ended() {
    let shell = Counting::default().shell();
    let calls = ["a", "break", "b", "c"].map(|it| [command(it)]);
    let calls: Vec<&[Value]> = calls.iter().map(|it| &it[..]).collect();
    let errors = ToolErrorAnswers::new(|error| Some(format!("Error: {error}")));
    let agent = agent(shell, &calls).middleware(errors).compile().unwrap();
    let texts = texts(&results(&agent.run("go").await.unwrap().messages));
    let expected =
        "1 of session 2\n\nAn earlier session has ended. This command ran in a new session.";
    assert!(texts[1].starts_with("Error: "), "{texts:?}");
    assert_eq!(
        [&*texts[0], &*texts[2], &*texts[3]],
        ["1 of session 1", expected, "2 of session 2"]
    );
}

#[tokio::test]
async fn cancelled_run_releases_the_session() {
    let executor = Counting::default();
    let agent = agent(executor.shell(), &[&[command("block")]]).compile().unwrap();
    let run = tokio::spawn(async move { agent.run("go").await.map(|_| ()) });
    executor.blocked.notified().await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    wait_until(|| executor.alive() == 0).await;
}

#[tokio::test]
async fn next_run_of_a_thread_releases_the_session_of_a_failed_run() {
    let executor = Counting::default();
    // The second call to the model fails, because the script is exhausted.
    let model = ScriptedModel::new([call("shell", command("a"), "c1")]);
    let agent = Agent::new(model).shared_middleware(executor.shell());
    let agent = agent.checkpointer(MemorySaver::new()).compile().unwrap();
    let conversation = agent.conversation("a");
    conversation.send("go").await.unwrap_err();
    assert_eq!(executor.alive(), 1);
    conversation.send("go").await.unwrap_err();
    assert_eq!(executor.alive(), 0);
    assert_eq!(executor.events().last().unwrap(), "1: close");
}

/// Waits until the condition holds.
async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), waiting).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn allowed_commands_keep_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
    fs::write(dir.path().join("sub/a.txt"), "text\n").unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("link")).unwrap();
    let commands = AllowedCommands::new(dir.path(), ["cat", "ls"]).unwrap();
    let shell = Arc::new(Shell::new(commands).trusted());
    let lines = ["cd sub/deep", "cd ..", "cat a.txt", "cd", "ls", "cd sub/a.txt", "cd nowhere"];
    let results = run(shell.clone(), &lines.map(command)).await;
    let statuses: Vec<_> = results.iter().map(|it| it.status == Status::Success).collect();
    assert_eq!(statuses, [true, true, true, true, true, false, false]);
    let texts = texts(&results);
    assert_eq!([&*texts[1], &*texts[2], &*texts[4]], ["<no output>", "text\n", "link\nsub\n"]);
    for outside in ["cd ..", "cd /", "cd link", "cd sub/../..", "cd a b"] {
        let result = &run(shell.clone(), &[command(outside)]).await[0];
        assert!(result.content.text().starts_with("Refused: "), "{outside}: {result:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn command_over_its_time_limit_is_killed_and_ends_the_session() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let commands = AllowedCommands::new(dir.path(), ["sh", "ls"]).unwrap();
    // Long enough for the other commands on a busy machine.
    let commands = commands.timeout(Duration::from_secs(20));
    let shell = Arc::new(Shell::new(commands).trusted());
    let lines = ["cd sub", "sh -c 'echo $$ > pid; exec sleep 600'", "ls"].map(command);
    let results = run(shell, &lines).await;
    let text = results[1].content.text();
    assert!(text.starts_with("Error: the command did not finish within 20s."), "{text}");
    assert!(text.contains("The session has ended."), "{text}");
    assert_eq!(results[2].content.text(), "sub\n", "the new session starts in the first directory");
    let pid = fs::read_to_string(dir.path().join("sub/pid")).unwrap();
    let is_running = || {
        let kill = std::process::Command::new("kill").args(["-0", pid.trim()]).output();
        kill.unwrap().status.success()
    };
    wait_until(|| !is_running()).await;
}

//! Tests of the tools that run programs. The sandboxes are not isolated, because isolation is tested in `sandbox-vm`.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{sync::Arc, time::Duration};

use graph_agents::{
    Agent, AgentOutcome, AiMessage, CompiledAgent, ScriptedModel, Status, ToolCall, ToolMessage,
    code::{CodeTools, SandboxCommands},
    middleware::Shell,
};
use graph_core::MemorySaver;
use sandbox_vm::{ExecLimits, Isolation, Sandboxes, backend::InProcess, guest};
use serde_json::{Value, json};

async fn sandboxes() -> Sandboxes {
    let sandboxes = Sandboxes::builder().backend(InProcess::new(guest::Agent::new));
    sandboxes.isolation(Isolation::Off).open().await.unwrap()
}

/// Returns limits that no program of these tests reaches, even if the machine is busy.
fn limits() -> ExecLimits {
    let time = Duration::from_secs(600);
    ExecLimits { wall: time, cpu_time: time, ..ExecLimits::default() }
}

/// Returns tools for the sandboxes.
fn tools(sandboxes: Sandboxes) -> CodeTools {
    CodeTools::new(sandboxes).limits(limits())
}

/// Returns an executor for the sandboxes.
fn commands(sandboxes: Sandboxes) -> SandboxCommands {
    SandboxCommands::new(sandboxes).limits(limits())
}

fn call(tool: &str, args: Value) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new(tool, args, "call-1"))
}

fn python(code: &str) -> AiMessage {
    call("python", json!({"code": code}))
}

fn shell(command: &str) -> AiMessage {
    call("shell", json!({"command": command}))
}

fn agent(tools: CodeTools, answers: impl IntoIterator<Item = AiMessage>) -> CompiledAgent {
    let answers: Vec<_> = answers.into_iter().flat_map(|it| [it, AiMessage::new("done")]).collect();
    let agent = Agent::new(ScriptedModel::new(answers)).middleware(tools);
    agent.checkpointer(MemorySaver::new()).compile().unwrap()
}

fn last_result(outcome: &AgentOutcome) -> ToolMessage {
    outcome.messages.iter().rev().find_map(|it| it.as_tool()).unwrap().clone()
}

#[tokio::test]
async fn files_of_a_thread_survive_the_deletion_of_its_sandbox() {
    let sandboxes = sandboxes().await;
    let write = python("open('n.txt', 'w').write('6'); print('written')");
    let compute = shell("mkdir -p out && echo $(( $(cat n.txt) * 7 )) | tee out/result.txt");
    let remove = shell("rm n.txt");
    let agent = agent(tools(sandboxes.clone()).trusted(), [write, compute, remove]);
    let chat = agent.conversation("a/thread with any name");

    let outcome = chat.send("write").await.unwrap();
    assert_eq!(last_result(&outcome).content.text(), "written\n");
    assert_eq!(outcome.state.get("files"), Some(&json!({"n.txt": "6"})));

    sandboxes.delete_all().await;
    let outcome = chat.send("compute").await.unwrap();
    assert_eq!(last_result(&outcome).content.text(), "42\n");

    let outcome = chat.send("remove").await.unwrap();
    assert_eq!(last_result(&outcome).content.text(), "[no output]");
    let files = json!({"n.txt": null, "out/result.txt": "42\n"});
    assert_eq!(outcome.state.get("files"), Some(&files));
    assert_eq!(sandboxes.list().len(), 1);
}

#[tokio::test]
async fn threads_do_not_share_files() {
    let answers = [shell("echo 1 > a.txt"), shell("ls")];
    let agent = agent(tools(sandboxes().await).trusted(), answers);
    agent.conversation("one").send("write").await.unwrap();
    let outcome = agent.conversation("two").send("list").await.unwrap();
    assert_eq!(last_result(&outcome).content.text(), "[no output]");
}

/// A command that prints one long line.
const LONG_OUTPUT: &str = "head -c 100000 /dev/zero | tr '\\0' x";

/// Returns limits that only [`LONG_OUTPUT`] exceeds. A short time limit would also end other commands if the machine is
/// busy.
fn short_output() -> ExecLimits {
    ExecLimits { output: 1000, ..limits() }
}

#[tokio::test]
async fn failures_are_results_for_the_model() {
    let tools = tools(sandboxes().await).limits(short_output()).trusted();
    let answers = [shell("echo out; echo err >&2; exit 3"), shell(LONG_OUTPUT)];
    let agent = agent(tools, answers);
    let chat = agent.conversation("a");
    let result = last_result(&chat.send("fail").await.unwrap());
    assert_eq!(result.status, Status::Error);
    assert_eq!(result.content.text(), "out\n\n[standard error]\nerr\n\n[exit code 3]");
    let result = last_result(&chat.send("print").await.unwrap());
    assert_eq!(result.status, Status::Error);
    assert!(result.content.text().contains("exceeded its limit"), "{result:?}");
}

#[tokio::test]
async fn binary_and_hidden_files_are_not_stored() {
    let code =
        "open('b', 'wb').write(b'\\xff'); open('.h', 'w').write('h'); open('t', 'w').write('t')";
    let agent = agent(tools(sandboxes().await), [python(code)]);
    let outcome = agent.conversation("a").send("write").await.unwrap();
    assert_eq!(outcome.state.get("files"), Some(&json!({"t": "t"})));
}

#[tokio::test]
async fn results_of_programs_are_bounded_and_marked() {
    let limits = ExecLimits { output: 1 << 20, ..limits() };
    let agent = agent(tools(sandboxes().await).limits(limits), [python("print('x' * 200_000)")]);
    let text = last_result(&agent.conversation("a").send("print").await.unwrap()).content.text();
    let end = "\n[output truncated: the first 100000 of 200001 characters are shown]\n</untrusted_tool_output>";
    assert!(text.starts_with("<untrusted_tool_output tool=\"python\">\nxxx"), "{text:.100}");
    assert!(text.ends_with(end), "{}", &text[text.len() - 200..]);
}

/// Runs these commands in one run of an agent and returns the results.
async fn run_commands(shell: Arc<Shell>, commands: &[&str]) -> Vec<ToolMessage> {
    let calls = commands.iter().map(|it| call("shell", json!({"command": it})));
    let model = ScriptedModel::new(calls.chain([AiMessage::new("done")]));
    let agent = Agent::new(model).shared_middleware(shell).compile().unwrap();
    let outcome = agent.run("go").await.unwrap();
    outcome.messages.iter().filter_map(|it| it.as_tool().cloned()).collect()
}

#[tokio::test]
async fn shell_keeps_directory_variables_and_files_for_the_run() {
    let sandboxes = sandboxes().await;
    let shell = Arc::new(Shell::new(commands(sandboxes.clone())).trusted());
    let commands = [
        "mkdir sub && cd sub && city='New York' && export n=2",
        "basename \"$PWD\"; echo \"$city $n\" | tee city.txt; exit 3",
        "cat city.txt",
    ];
    let results = run_commands(shell.clone(), &commands).await;
    let texts: Vec<_> = results.iter().map(|it| it.content.text()).collect();
    assert_eq!(texts, ["<no output>", "sub\nNew York 2\n\n\nExit code: 3", "New York 2\n"]);
    assert_eq!(results[1].status, Status::Error);
    assert!(sandboxes.list().is_empty(), "the session was not closed");

    let results = run_commands(shell, &["echo \"[$city]\"; ls"]).await;
    assert_eq!(results[0].content.text(), "[]\n", "the next run has a new session");
}

#[tokio::test]
async fn session_that_is_dropped_deletes_its_sandbox() {
    let sandboxes = sandboxes().await;
    // The second call to the model fails, because the script is exhausted.
    let model = ScriptedModel::new([shell("ls")]);
    let middleware = Shell::new(commands(sandboxes.clone()));
    let agent = Agent::new(model).middleware(middleware).compile().unwrap();
    agent.run("go").await.unwrap_err();
    assert_eq!(sandboxes.list().len(), 1);
    drop(agent);
    let deleted = async {
        while !sandboxes.list().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), deleted).await.unwrap();
}

#[tokio::test]
async fn command_that_exceeds_a_limit_ends_the_session() {
    let sandboxes = sandboxes().await;
    let commands = commands(sandboxes.clone()).limits(short_output());
    let shell = Shell::new(commands).trusted();
    let results =
        run_commands(Arc::new(shell), &["a=1; touch f", LONG_OUTPUT, "echo \"[$a]\"; ls"]).await;
    let text = results[1].content.text();
    assert_eq!(results[1].status, Status::Error);
    assert!(
        text.contains("exceeded its limit") && text.contains("The session has ended"),
        "{text}"
    );
    assert_eq!(results[2].content.text(), "[]\n");
    assert!(sandboxes.list().is_empty(), "a session was not closed");
}

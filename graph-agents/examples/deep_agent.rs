//! An agent that plans, delegates to a sub-agent and runs a program in a sandbox. Runs offline with scripted models.
#![expect(clippy::print_stdout, reason = "an example that prints its conversation")]

use graph_agents::{
    Agent, AiMessage, ScriptedModel, ToolCall, code::CodeTools, deep::DeepAgent, pretty,
};
use graph_core::MemorySaver;
use sandbox_vm::{
    Isolation, Sandboxes,
    backend::{InProcess, Jail},
    guest,
};
use serde_json::{Value, json};

fn call(tool: &str, args: Value, id: &str) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new(tool, args, id))
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    // If this machine does not support the back end `Jail`, the programs run without isolation.
    let sandboxes = Sandboxes::builder().backend(Jail::this_program());
    let sandboxes = sandboxes.backend(InProcess::new(guest::Agent::new));
    let sandboxes = sandboxes.isolation(Isolation::Preferred).open().await?;

    let data = json!({"path": "sales.csv", "content": "north,40\nsouth,2\n"});
    let collector = ScriptedModel::new([
        call("write_file", data, "call-1"),
        AiMessage::new("The numbers are in sales.csv."),
    ]);
    let steps = ["Collect the numbers", "Add them up"]
        .map(|step| json!({"content": step, "status": "pending"}));
    let code = "print(sum(int(line.split(',')[1]) for line in open('sales.csv')))";
    let model = ScriptedModel::new([
        call("write_todos", json!({"todos": steps}), "call-1"),
        call("task", json!({"agent": "collector", "description": "Collect the sales."}), "call-2"),
        call("python", json!({"code": code}), "call-3"),
        AiMessage::new("We sold 42 pieces."),
    ]);
    let agent = DeepAgent::new(model)
        .sub_agent("collector", "Collects numbers in files.", Agent::new(collector))
        .middleware(CodeTools::new(sandboxes))
        .build()?
        .checkpointer(MemorySaver::new())
        .compile()?;

    let outcome = agent.conversation("sales").send("How many pieces did we sell?").await?;
    print!("{}", pretty(&outcome.messages));
    assert_eq!(outcome.state.get("files"), Some(&json!({"sales.csv": "north,40\nsouth,2\n"})));
    let sum = outcome.messages.iter().rev().find_map(|it| it.as_tool()).ok_or("no result")?;
    assert!(sum.content.text().contains("42"), "{sum:?}");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The jail starts this program again as the guest, which then never returns from `enter`.
    guest::enter(guest::Agent::new);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

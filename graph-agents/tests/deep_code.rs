//! Deep agents whose programs run in a sandbox. The sandboxes are not isolated, because isolation is tested in
//! `sandbox-vm`.

use std::time::Duration;

use graph_agents::{
    Agent, AiMessage, Message, ScriptedModel, Status, ToolCall, code::CodeTools, deep::DeepAgent,
};
use graph_core::MemorySaver;
use sandbox_vm::{ExecLimits, Isolation, Sandboxes, backend::InProcess, guest};
use serde_json::{Value, json};

fn call(tool: &str, args: Value) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new(tool, args, "call-1"))
}

fn task(agent: &str) -> AiMessage {
    call("task", json!({"agent": agent, "description": "Do it."}))
}

#[tokio::test]
async fn deep_agent_and_its_sub_agents_share_files_with_their_programs() {
    let sandboxes = Sandboxes::builder().backend(InProcess::new(guest::Agent::new));
    let sandboxes = sandboxes.isolation(Isolation::Off).open().await.unwrap();
    let collector = ScriptedModel::new([
        call("write_file", json!({"path": "sales.csv", "content": "south,2\nnorth,40\n"})),
        AiMessage::new("collected"),
    ]);
    let counter = ScriptedModel::new([
        call("shell", json!({"command": "grep -c , sorted.csv > lines.txt"})),
        AiMessage::new("counted"),
    ]);
    let model = ScriptedModel::new([
        task("collector"),
        call("shell", json!({"command": "sort sales.csv | tee sorted.csv"})),
        task("counter"),
        call("read_file", json!({"path": "lines.txt"})),
        AiMessage::new("There are 2 lines."),
    ]);
    // Long enough for a busy machine.
    let limits = ExecLimits { wall: Duration::from_secs(600), ..ExecLimits::default() };
    let agent = DeepAgent::new(model)
        .sub_agent("collector", "Collects numbers.", Agent::new(collector))
        .sub_agent("counter", "Counts lines.", Agent::new(counter))
        .middleware(CodeTools::new(sandboxes).limits(limits))
        .build()
        .unwrap()
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();

    let outcome = agent.conversation("sales").send("How many lines?").await.unwrap();
    let results: Vec<_> = outcome.messages.iter().filter_map(Message::as_tool).collect();
    assert!(results.iter().all(|it| it.status == Status::Success), "{results:?}");
    for (result, part) in results.iter().zip(["collected", "north,40\nsouth,2", "counted", "2"]) {
        assert!(result.content.text().contains(part), "{result:?}");
    }
    let files = json!({
        "sales.csv": "south,2\nnorth,40\n",
        "sorted.csv": "north,40\nsouth,2\n",
        "lines.txt": "2\n",
    });
    assert_eq!(outcome.state.get("files"), Some(&files));
    assert_eq!(outcome.text(), "There are 2 lines.");
}

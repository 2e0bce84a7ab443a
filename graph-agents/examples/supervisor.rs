//! A supervisor that hands a question to another agent. Runs offline with scripted models.
#![expect(clippy::print_stdout, reason = "an example that prints its conversation")]

use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, multi::Supervisor, pretty, tool};
use serde_json::json;

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let math_model = ScriptedModel::new([
        AiMessage::new("").tool_call(ToolCall::new("add", json!({"a": 2, "b": 3}), "call-2")),
        AiMessage::new("The sum is 5."),
    ]);
    let math =
        Agent::new(math_model).name("math").tools([add()]).prompt("You calculate.").compile()?;

    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(ToolCall::new("transfer_to_math", json!({}), "call-1")),
        AiMessage::new("2 + 3 = 5"),
    ]);
    let team = Supervisor::new(model, [math]).prompt("You lead a team.").compile()?;

    let outcome = team.run("What is 2 + 3?").await?;
    print!("{}", pretty(&outcome.messages));
    assert!(outcome.messages.iter().any(|it| it.text() == "The sum is 5."));
    Ok(())
}

//! A chatbot that calls a tool and remembers the conversation. Runs offline with a scripted model.
#![expect(clippy::print_stdout, reason = "an example that prints its conversation")]

use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, pretty, tool};
use graph_core::MemorySaver;
use serde_json::json;

/// Returns the weather in a city.
#[tool]
async fn weather(
    /// Name of the city.
    city: String,
) -> String {
    format!("It rains in {city}.")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // For a real provider: `LlmModel::new(create_provider("anthropic", None, None)?)`.
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(ToolCall::new("weather", json!({"city": "Rome"}), "call-1")),
        AiMessage::new("Take an umbrella: it rains in Rome."),
        AiMessage::new("You asked about Rome."),
    ]);
    let agent = Agent::new(model)
        .tools([weather()])
        .prompt("You are a helpful travel guide.")
        .checkpointer(MemorySaver::new())
        .compile()?;

    let chat = agent.conversation("ann");
    chat.send("How is the weather in Rome?").await?;
    let answer = chat.send("Which city did I ask about?").await?;
    print!("{}", pretty(&answer.messages));
    Ok(())
}

//! A chatbot that calls a tool and remembers the conversation. Runs offline with a scripted model.
#![expect(clippy::print_stdout, reason = "an example that prints its conversation")]

use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, pretty, tool};
use graph_core::MemorySaver;
use serde_json::json;

/// Returns the weather in a city.
#[tool]
async fn weather(city: String) -> String {
    format!("It rains in {city}.")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // For a real provider: `LlmModel::new(create_provider("anthropic", None, None)?)`.
    let call = AiMessage::new("").tool_call(ToolCall::new("weather", json!({"city": "Rome"}), "1"));
    let model = ScriptedModel::new([call, "Take an umbrella.".into(), "About Rome.".into()]);
    let agent = Agent::new(model).tools([weather()]).checkpointer(MemorySaver::new()).compile()?;

    let chat = agent.conversation("ann");
    chat.send("How is the weather in Rome?").await?;
    let answer = chat.send("Which city did I ask about?").await?;
    print!("{}", pretty(&answer.messages));
    assert_eq!((answer.messages.len(), answer.text().as_str()), (6, "About Rome."));
    Ok(())
}

//! An agent that asks a person before it sends an e-mail. Runs offline with a scripted model.
#![expect(clippy::print_stdout, reason = "an example that prints its conversation")]

use graph_agents::{
    Agent, AiMessage, ScriptedModel, ToolCall,
    middleware::{DecisionKind, HumanInTheLoop, ReviewRule},
    tool,
};
use graph_core::MemorySaver;
use serde_json::json;

/// Sends an e-mail.
#[tool]
async fn send_mail(to: String, text: String) -> String {
    format!("Sent {} characters to {to}.", text.len())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mail = json!({"to": "ann@example.org", "text": "See you at noon."});
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(ToolCall::new("send_mail", mail, "call-1")),
        AiMessage::new("Done."),
    ]);
    let review = ReviewRule::allow([DecisionKind::Approve, DecisionKind::Reject]);
    let agent = Agent::new(model)
        .tools([send_mail()])
        .middleware(HumanInTheLoop::new([("send_mail", review)]))
        .checkpointer(MemorySaver::new())
        .compile()?;

    let chat = agent.conversation("ann");
    let outcome = chat.send("Tell Ann that we meet at noon.").await?;
    println!("{:#}", outcome.interrupts[0].value);
    let outcome = chat.resume(json!({"decisions": [{"type": "approve"}]})).await?;
    println!("{}", outcome.text());
    assert_eq!(outcome.messages[2].text(), "Sent 16 characters to ann@example.org.");
    Ok(())
}

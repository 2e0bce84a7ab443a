use graph_agents::{Agent, AiMessage, ScriptedModel};

#[derive(Debug)]
struct Limit;

fn main() {
    let model = ScriptedModel::new([AiMessage::new("Hello!")]);
    let _ = Agent::new(model).middleware(Limit).compile();
}

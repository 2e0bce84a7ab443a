use graph_agents::Agent;

fn main() {
    let _ = Agent::new("claude").compile();
}

use graph_agents::tool;

/// Returns the length of a text.
#[tool]
async fn length(text: &str) -> usize {
    text.len()
}

fn main() {}

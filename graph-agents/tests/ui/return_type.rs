use graph_agents::tool;

struct Hit {
    text: String,
}

/// Searches.
#[tool]
async fn search(query: String) -> Hit {
    Hit { text: query }
}

fn main() {}

use graph_agents::tool;

struct Failure;

/// Searches.
#[tool]
async fn search(query: String) -> Result<String, Failure> {
    Ok(query)
}

fn main() {}

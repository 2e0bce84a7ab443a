use graph_agents::tool;

struct Query;

struct Hit;

/// Searches.
#[tool]
async fn search(query: Query, limit: usize) -> Vec<Hit> {
    let _ = (query, limit);
    Vec::new()
}

fn main() {}

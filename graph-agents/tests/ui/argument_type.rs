use graph_agents::tool;

struct Query {
    text: String,
}

/// Searches.
#[tool]
async fn search(query: Query) -> String {
    query.text
}

fn main() {}

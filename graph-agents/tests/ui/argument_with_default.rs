use graph_agents::tool;

struct Query {
    text: String,
}

fn everything() -> Query {
    Query { text: String::new() }
}

/// Searches.
#[tool]
async fn search(
    /// What to search for.
    #[serde(default = "everything")]
    query: Query,
    #[serde(default)] limit: usize,
) -> String {
    query.text[..limit].to_owned()
}

fn main() {}

use graph_agents::tool;

/// Returns its argument.
#[tool]
async fn echo<T>(value: T) -> T {
    value
}

fn main() {}

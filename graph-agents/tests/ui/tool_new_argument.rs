use graph_agents::Tool;

struct Add {
    a: i64,
    b: i64,
}

fn main() {
    let _ = Tool::new("add", "Adds.", |it: Add, _| async move { it.a + it.b });
}

use std::rc::Rc;

use graph_agents::tool;

/// Waits.
#[tool]
async fn wait(seconds: u64) -> u64 {
    let shared = Rc::new(seconds);
    std::future::ready(()).await;
    *shared
}

fn main() {}

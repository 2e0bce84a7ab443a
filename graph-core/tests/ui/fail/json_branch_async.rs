//! A branch of a graph that is described by JSON cannot be async.

use graph_core::{Goto, json::JsonBranch};

fn main() {
    let _ = JsonBranch::new("choose", async |_| Ok(vec![Goto::end()]));
}

//! `goto` needs a node that runs on the state.

use graph_core::goto;

async fn write(_: String) {}

fn main() {
    let _ = goto(write);
}

//! A goto to a node that takes a payload.

use graph_core::goto;

async fn write(_: String) {}

fn main() {
    let _ = goto(write);
}

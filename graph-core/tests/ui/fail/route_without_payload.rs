//! A route to a node that takes a payload must have one.

use graph_core::Route;

async fn write(_: String) {}

#[derive(Route)]
enum Next {
    #[to(write)]
    Write,
}

fn main() {
    let _ = Next::Write;
}

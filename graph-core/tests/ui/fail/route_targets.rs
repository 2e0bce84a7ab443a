//! The targets of a route must exist.

use graph_core::{END, Route};

#[derive(Route)]
enum Next {
    #[to(missing)]
    Missing,
    #[to(END)]
    Done,
}

fn main() {
    let _ = Next::Done;
}

//! A list is extended with `append`.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(add)]
    drafts: Vec<String>,
}

fn main() {}

//! A list or a string is extended with `append`.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(add)]
    drafts: Vec<String>,
    #[reduce(add)]
    text: String,
}

fn main() {}

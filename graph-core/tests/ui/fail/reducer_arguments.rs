//! Reducers with invalid arguments.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(topic(kepe))]
    topic: Vec<String>,
    #[reduce(upsert)]
    rows: Vec<String>,
    #[reduce(upsert(id))]
    text: String,
    #[reduce(with = 3)]
    with: String,
    #[reduce("append")]
    quoted: String,
    #[reduce]
    empty: String,
}

fn main() {
    let _ = Essay::update();
}

//! A reducer function changes the current value in place.

use graph_core::State;

fn keep_longest(current: String, update: String) -> String {
    if update.len() > current.len() { update } else { current }
}

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(with = keep_longest)]
    topic: String,
}

fn main() {
    let _ = Essay::update();
}

//! Invalid options of states and fields.

use graph_core::State;

#[derive(State, Clone, Default)]
#[state(version = "two", versoin = 2)]
struct Essay {
    #[state(inptu)]
    topic: String,
    #[state(private, input)]
    both: String,
    #[state(rename = text)]
    renamed: String,
    #[state(rename = "topic")]
    same: String,
    #[state(version = 3)]
    version: String,
}

fn main() {
    let _ = Essay::update();
}

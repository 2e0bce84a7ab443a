//! Reducers that do not support the type of the field.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(append)]
    count: u32,
    #[reduce(merge)]
    list: Vec<String>,
}

fn main() {
    let _ = Essay::update();
}

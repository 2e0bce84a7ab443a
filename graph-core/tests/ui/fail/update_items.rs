//! The items of a list and the literals for a custom reducer are not converted.

use graph_core::{Reducer, State};

/// Collects numbers that are written one at a time.
struct Push;

impl Reducer<Vec<u32>> for Push {
    type Update = u32;
    fn fold(current: &mut Vec<u32>, update: u32) {
        current.push(update);
    }
    fn replace(current: &mut Vec<u32>, update: u32) {
        *current = vec![update];
    }
}

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(append)]
    drafts: Vec<String>,
    #[reduce(Push)]
    #[state(private)]
    lengths: Vec<u32>,
}

fn main() {
    let _ = Essay::update().drafts(["x"]);
}

// In a separate function, because the compiler reports the type of a literal only if there is no other error.
fn number() {
    let _ = Essay::update().lengths(1);
}

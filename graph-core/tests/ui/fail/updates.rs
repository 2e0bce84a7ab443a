//! Invalid updates.

use graph_core::{Reducer, State};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
    count: u64,
    #[reduce(append)]
    drafts: Vec<String>,
    #[reduce(Push)]
    #[state(private)]
    lengths: Vec<u32>,
}

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

/// The values of an update must have the type of the field. If a name is similar, the compiler suggests it.
fn values() {
    let _ = Essay::update().topic(3).count("three").tpoic("x");
}

/// The items of a list are not converted.
fn items() {
    let _ = Essay::update().drafts(["x"]);
}

/// The literals for a custom reducer are not converted.
fn literals() {
    let _ = Essay::update().lengths(1);
}

/// An update has one method per field. The error shows the fields, because no stable attribute lets a macro add its own
/// text to the error for an unknown method.
fn unknown_field() {
    let _ = Essay::update().subject("rust");
}

fn main() {}

//! Types for which `State` cannot be derived.

use graph_core::State;

#[derive(State, Clone)]
enum Either {
    Left,
}

#[derive(State, Clone)]
struct Tuple(String);

#[derive(State, Clone)]
struct Borrowed<'a> {
    text: &'a str,
}

#[derive(State, Clone)]
struct Unbound<T> {
    list: Vec<T>,
}

fn main() {
    let _ = (Either::update(), Tuple::update());
}

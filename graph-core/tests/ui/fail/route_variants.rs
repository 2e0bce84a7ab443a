//! Invalid route variants.

use graph_core::{Route, State};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn review(_: &Essay) {}
async fn write(_: u32) {}

#[derive(Route)]
enum Next {
    Missing,
    #[to]
    Empty,
    #[to(review)]
    #[to(review)]
    Twice,
    #[to(write)]
    Two(u32, u32),
    #[to(write)]
    Named {
        number: u32,
    },
    #[to(write, review)]
    Both(u32),
    #[to(graph_core::END)]
    End(u32),
    #[to(3)]
    Number,
}

#[derive(Route)]
struct Struct;

fn main() {
    let _ = Next::Missing;
}

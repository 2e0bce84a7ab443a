//! A custom reducer must support the type of the field.

use graph_core::{Reducer, State};

struct Longest;

impl Reducer<String> for Longest {
    type Update = String;
    fn fold(current: &mut String, update: String) {
        if update.len() > current.len() {
            *current = update;
        }
    }
    fn replace(current: &mut String, update: String) {
        *current = update;
    }
}

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(Longest)]
    topics: Vec<String>,
}

async fn write(_: &Essay) -> EssayUpdate {
    Essay::update().topics(vec!["rust".to_owned()])
}

fn main() {}

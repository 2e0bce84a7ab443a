//! Invalid `reduce` attributes.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Arguments {
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

#[derive(State, Clone, Default)]
struct Unknown {
    #[reduce(appendd)]
    drafts: Vec<String>,
    #[reduce(frobnicate)]
    topic: String,
}

/// A field can have only one reducer.
#[derive(State, Clone, Default)]
struct Twice {
    #[reduce(append)]
    #[reduce(max)]
    topic: String,
    #[reduce(append, max)]
    text: String,
}

/// A list or a string is extended with `append`.
#[derive(State, Clone, Default)]
struct AddToList {
    #[reduce(add)]
    drafts: Vec<String>,
    #[reduce(add)]
    text: String,
}

fn main() {
    let _ = (Arguments::update(), Unknown::update(), Twice::update());
}

//! An update has one method per field. The error shows the fields, because no stable attribute lets a macro add its own
//! text to the error for an unknown method. If a name is similar, the compiler suggests it: see `update_value.rs`.

use graph_core::State;

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    drafts: Vec<String>,
}

fn main() {
    let _ = Essay::update().subject("rust");
}

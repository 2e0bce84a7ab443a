//! The derives of `graph-core`, which re-exports them: use them from there.
//!
//! Each derive is three files: *parse* reads what the user wrote, *check* finds every mistake in it, and
//! *expand* writes the code. Expand runs after a mistake too, on what is left without it, so that the rest
//! of the user's program compiles and the mistake is the only error shown.

mod attribute;
mod mistakes;
mod route;
mod state;
mod syntax;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct the state of a graph, and writes its update type.
///
/// `struct Essay` gets `EssayUpdate`, with one method a field, and `Essay::update()`, which starts one.
///
/// | on a field | several writes of one step |
/// |---|---|
/// | nothing | are a conflict; the last step's value stays |
/// | `#[reduce(append)]` | are appended to the list or text |
/// | `#[reduce(add)]`, `max`, `min` | are added up; the greatest or the least stays |
/// | `#[reduce(merge)]` | are merged into the map or set |
/// | `#[reduce(upsert(id))]` | replace the items with the same `id` in the `Vec`, or are appended |
/// | `#[reduce(any)]` | the last in task order counts, for one step |
/// | `#[reduce(topic)]` | are gathered in the `Vec`, for one step; `topic(keep)` keeps them |
/// | `#[reduce(ephemeral)]` | are a conflict; the value stays for one step |
/// | `#[reduce(untracked)]` | are a conflict; checkpoints never hold the value |
/// | `#[reduce(with = function)]` | are folded by `fn(&mut T, T)` |
/// | `#[reduce(MyReducer)]` | are folded by a type that implements `Reducer` |
///
/// The key of `upsert(id)` is a `String`; `upsert(id: u64)` names another type, `upsert(id())` calls a method.
///
/// `#[state(input)]` and `#[state(output)]` on some fields take the others out of a run's input or output;
/// a field with `#[state(private)]` is in neither.
/// `#[state(rename = "name")]` sets the name that stands in checkpoints.
/// `#[state(version = 2)]` on the struct is the version of the stored form.
///
/// The bounds of type parameters have to stand on the struct, since the update type needs them as well.
#[proc_macro_derive(State, attributes(state, reduce))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    state::derive(parse_macro_input!(input as DeriveInput)).into()
}

/// Makes an enum a route: each variant is a way out of a node.
///
/// | variant | leads to |
/// |---|---|
/// | `#[to(review)] Done` | the node `review` |
/// | `#[to(review, log)] Done` | both nodes |
/// | `#[to(END)] Done` | the end of this path |
/// | `#[to("name")] Done` | the node added under that name |
/// | `#[to(write)] Section(Section)` | the node `write`, which runs on the payload |
/// | `#[to(write)] Sections(Vec<Section>)` | the node `write`, once for each payload |
#[proc_macro_derive(Route, attributes(to))]
pub fn derive_route(input: TokenStream) -> TokenStream {
    route::derive(parse_macro_input!(input as DeriveInput)).into()
}

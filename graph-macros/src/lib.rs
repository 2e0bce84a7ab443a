//! Derive macros for `graph-core`, and `#[tool]` for `graph-agents`, which re-export them.
//!
//! Each derive consists of three stages: *parse* reads the input, *check* validates it and collects all errors, and
//! *expand* generates the code. Expand also runs after errors, with the invalid parts left out, so that these errors do
//! not cause further errors in code that uses the derived type.
//!
//! The book's chapters [State and reducers](../book/state.html), [Nodes, edges, routes, sends](../book/nodes.html) and
//! [Tools](../book/tools.html) describe the attributes; `cargo xtask book` renders them.

mod attribute;
mod diagnostics;
mod route;
mod state;
mod syntax;
mod tool;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `State` for a struct and generates its update type.
///
/// For `struct Essay`, it generates `EssayUpdate` with one method per field, and `Essay::update()`, which creates an
/// empty update.
///
/// The attribute of a field selects its reducer:
///
/// | attribute | effect of a write | several writes in one step |
/// |---|---|---|
/// | none | replaces the value | are a conflict |
/// | `#[reduce(append)]` | appends to the list or `String` | are all appended |
/// | `#[reduce(add)]` | adds to the value | are all added |
/// | `#[reduce(max)]` | replaces the value if the written one is greater | keep the greatest |
/// | `#[reduce(min)]` | replaces the value if the written one is smaller | keep the smallest |
/// | `#[reduce(merge)]` | merges into the map or set | are all merged |
/// | `#[reduce(upsert(id))]` | replaces items of the `Vec` that have the same `id`, appends others | are all applied |
/// | `#[reduce(any)]` | sets the value; a step without a write clears it | keep the last one in task order |
/// | `#[reduce(topic)]` | holds the items that the latest step wrote: a step without a write clears the `Vec`; `topic(keep)` keeps all items | are all collected |
/// | `#[reduce(ephemeral)]` | sets the value; a step without a write clears it | are a conflict |
/// | `#[reduce(untracked)]` | replaces the value; checkpoints never contain it | are a conflict |
/// | `#[reduce(with = function)]` | calls `fn(&mut T, T)` | are all applied |
/// | `#[reduce(MyReducer)]` | calls the `Reducer` implementation of the type | are all applied |
///
/// The key of `upsert(id)` is a `String`. `upsert(id: u64)` sets another type, and `upsert(id())` calls a method.
///
/// If some fields have `#[state(input)]`, only these are part of a run's input. The same applies to `#[state(output)]`
/// and the output. A field with `#[state(private)]` is part of neither. `#[state(rename = "name")]` sets the name used
/// in checkpoints and streams. `#[state(version = 2)]` on the struct sets the version of the stored format.
///
/// Declare the bounds of type parameters on the struct itself, so that the generated update type has the same bounds.
#[proc_macro_derive(State, attributes(state, reduce))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    state::derive(parse_macro_input!(input as DeriveInput)).into()
}

/// Implements `Route` for an enum. Each variant leads to the targets in its `#[to(..)]` attribute.
///
/// | variant | leads to |
/// |---|---|
/// | `#[to(review)] Done` | the node `review` |
/// | `#[to(review, log)] Done` | both nodes |
/// | `#[to(END)] Done` | the end of this path |
/// | `#[to("name")] Done` | the node with that name |
/// | `#[to(write)] Section(Section)` | the node `write`, with the field as payload |
/// | `#[to(write)] Sections(Vec<Section>)` | the node `write`, once per item, with the item as payload |
#[proc_macro_derive(Route, attributes(to))]
pub fn derive_route(input: TokenStream) -> TokenStream {
    route::derive(parse_macro_input!(input as DeriveInput)).into()
}

/// Turns an async function into a function without parameters that creates a tool.
///
/// The tool has the function's name and doc comment. Each parameter is an argument that the model passes, with its doc
/// comment as description. Parameters of type `&ToolRuntime`, `&AgentState`, `&ToolCall`, `&Context`, `&dyn Store` and
/// `Dep<T>` are filled in by the agent; the model does not see them.
///
/// | option | effect |
/// |---|---|
/// | `name = "add"` | sets the name |
/// | `return_direct` | ends the agent's loop after the tool |
/// | `retries = 2` | retries a failed call, with increasing delays |
/// | `timeout_secs = 30` | fails an attempt that takes longer |
/// | `cache_secs = 600` | reuses the result of an equal call for this long |
/// | `max_output = 10_000` | truncates longer results; the default is 100,000 characters |
/// | `answer_errors` | sends the tool's errors to the model instead of failing the run |
/// | `untrusted` | marks results as untrusted data |
/// | `strict` | asks the provider to restrict the arguments to the schema |
///
/// The function returns a serialisable value, a `ToolOutput`, a `Command`, or a `Result` of these.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

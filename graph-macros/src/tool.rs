//! Expands `#[tool]`.

mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;

/// Expands `#[tool]` on an async function.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    match parse::parse(options, item) {
        Ok(tool) => expand::expand(&tool),
        Err(error) => error.into_compile_error(),
    }
}

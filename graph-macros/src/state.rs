//! Expands `#[derive(State)]`.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::DeriveInput;

use crate::diagnostics::Diagnostics;

pub(crate) fn derive(input: DeriveInput) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let parsed = parse::parse(input, &mut diagnostics);
    let state = check::check(parsed, &mut diagnostics);
    let mut code = expand::expand(&state);
    code.extend(diagnostics.into_compile_errors());
    code
}

//! Expands `#[derive(Route)]`.

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
    let route = check::check(parsed, &mut diagnostics);
    let mut code = expand::expand(&route);
    code.extend(diagnostics.into_compile_errors());
    code
}

//! `#[derive(State)]`.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::DeriveInput;

use crate::mistakes::Mistakes;

pub(crate) fn derive(input: DeriveInput) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let written = parse::parse(input, &mut mistakes);
    let state = check::check(written, &mut mistakes);
    let mut code = expand::expand(&state);
    code.extend(mistakes.into_compile_errors());
    code
}

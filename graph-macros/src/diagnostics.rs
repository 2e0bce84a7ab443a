//! Collects compile errors and formats their messages.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{GenericParam, Generics, TypeParam, parse_quote};

/// The errors found so far. All of them are reported, each at its own span.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<syn::Error>);

impl Diagnostics {
    /// Adds an error at the span of the given tokens.
    pub(crate) fn add(&mut self, at: impl ToTokens, message: impl Display) {
        self.add_error(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn add_error(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or adds the error and returns `None`.
    pub(crate) fn ok<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add_error(error)).ok()
    }

    pub(crate) fn into_compile_errors(self) -> Option<TokenStream> {
        self.0.map(|it| it.into_compile_error())
    }

    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.0.into_iter().flatten().map(|it| it.to_string()).collect()
    }
}

/// Reports each lifetime parameter as an error. Returns `false` if it finds any.
pub(crate) fn check_lifetimes(
    generics: &Generics,
    what: &str,
    diagnostics: &mut Diagnostics,
) -> bool {
    for param in generics.lifetimes() {
        let name = &param.lifetime;
        let message = format!(
            "{what} cannot contain references; use owned types and remove the lifetime `{name}`"
        );
        diagnostics.add(name, message);
    }
    generics.lifetimes().next().is_none()
}

/// Adds the bounds that `State` and `Route` require to all generic parameters. Without the bounds, the generated code
/// would cause further errors, in addition to those that are reported.
pub(crate) fn add_required_bounds(generics: &mut Generics) {
    for param in &mut generics.params {
        match param {
            GenericParam::Lifetime(param) => param.bounds.push(parse_quote!('static)),
            GenericParam::Type(param) => {
                let bounds: TypeParam = parse_quote! {
                    T: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static
                };
                param.bounds.extend(bounds.bounds);
            }
            GenericParam::Const(_) => {}
        }
    }
}

/// Formats the error for an unknown name, with a suggestion if a known name is similar. `what` is the kind of name.
pub(crate) fn unknown_name(what: &str, name: &str, known: &[&str], help: &str) -> String {
    let nearest = known.iter().map(|it| (strsim::levenshtein(name, it), it)).min();
    match nearest {
        Some((distance, it)) if distance <= 1 + name.len() / 4 => {
            format!("unknown {what} `{name}` (did you mean `{it}`?); {help}")
        }
        _ => format!("unknown {what} `{name}`; {help}"),
    }
}

//! What is wrong with the user's code, and how to say so.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{GenericParam, Generics, TypeParam, parse_quote};

/// The mistakes found so far: all of them are shown, each at its own place.
#[derive(Default)]
pub(crate) struct Mistakes(Option<syn::Error>);

impl Mistakes {
    /// Adds one, at the tokens that are wrong.
    pub(crate) fn add(&mut self, at: impl ToTokens, message: impl Display) {
        self.add_error(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn add_error(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value, or a note of what is wrong with it.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
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

/// Refuses what is borrowed; `false` if something is.
pub(crate) fn check_lifetimes(generics: &Generics, what: &str, mistakes: &mut Mistakes) -> bool {
    for param in generics.lifetimes() {
        let name = &param.lifetime;
        let help = format!("{what} owns its values: replace what is borrowed for `{name}`");
        mistakes.add(name, help);
    }
    generics.lifetimes().next().is_none()
}

/// Gives every parameter the bounds that `State` and `Route` ask for, so that no error is shown but the user's.
pub(crate) fn bind_all(generics: &mut Generics) {
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

/// Says that a word is unknown, which known one was probably meant, and what can be written.
pub(crate) fn unknown(word: &str, known: &[&str], help: &str) -> String {
    let nearest = known.iter().map(|it| (distance(word, it), it)).min();
    match nearest {
        Some((distance, it)) if distance <= 1 + word.len() / 4 => {
            format!("`{word}` is unknown (did you mean `{it}`?): {help}")
        }
        _ => format!("`{word}` is unknown: {help}"),
    }
}

/// How many letters must be added, removed or changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in b.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

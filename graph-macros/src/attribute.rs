//! The grammar of `#[state(..)]` and `#[reduce(..)]`, before anything is known of its words.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Attribute, Expr, Meta, Path, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token,
};

use crate::mistakes::Mistakes;

/// One entry of an attribute: `word`, `word = value` or `word(more)`.
pub(crate) struct Entry {
    pub(crate) path: Path,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    None,
    Is(Box<Expr>),
    Holds(TokenStream),
}

impl Entry {
    /// The entry's path as text: one word, mostly.
    pub(crate) fn word(&self) -> String {
        self.path.to_token_stream().to_string().replace(' ', "")
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let path = input.parse().map_err(|error| {
            syn::Error::new(error.span(), "expected `word`, `word = value` or `word(..)`")
        })?;
        let value = if input.parse::<Option<Token![=]>>()?.is_some() {
            Value::Is(ungrouped(input.parse()?))
        } else if input.peek(token::Paren) {
            let inside;
            syn::parenthesized!(inside in input);
            Value::Holds(inside.parse()?)
        } else {
            Value::None
        };
        Ok(Self { path, value })
    }
}

impl ToTokens for Entry {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.path.to_tokens(tokens);
        match &self.value {
            Value::None => {}
            Value::Is(value) => value.to_tokens(tokens),
            Value::Holds(more) => more.to_tokens(tokens),
        }
    }
}

/// The expression without the invisible group in which a `macro_rules!` macro hands it on.
fn ungrouped(expression: Box<Expr>) -> Box<Expr> {
    match *expression {
        Expr::Group(group) => ungrouped(group.expr),
        _ => expression,
    }
}

/// The entries of all attributes of that name; `example` is shown where one has none.
pub(crate) fn entries(
    attributes: &[Attribute],
    name: &str,
    example: &str,
    mistakes: &mut Mistakes,
) -> Vec<Entry> {
    let mut all = Vec::new();
    for attribute in attributes.iter().filter(|it| it.path().is_ident(name)) {
        match &attribute.meta {
            Meta::List(list) if !list.tokens.is_empty() => {
                let parser = Punctuated::<Entry, Token![,]>::parse_terminated;
                all.extend(mistakes.take(list.parse_args_with(parser)).into_iter().flatten());
            }
            _ => mistakes.add(attribute, format_args!("write what is meant: `{example}`")),
        }
    }
    all
}

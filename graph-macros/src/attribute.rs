//! Parses the attributes `#[state(..)]` and `#[reduce(..)]` without interpreting their entries.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Attribute, Expr, Meta, Path, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token,
};

use crate::diagnostics::Diagnostics;

/// One entry of an attribute: `name`, `name = value` or `name(..)`.
pub(crate) struct Entry {
    pub(crate) path: Path,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    None,
    /// The expression after `=`.
    Assigned(Box<Expr>),
    /// The tokens inside the parentheses.
    Nested(TokenStream),
}

impl Entry {
    /// Returns the path of the entry as text, which usually is a single identifier.
    pub(crate) fn name(&self) -> String {
        self.path.to_token_stream().to_string().replace(' ', "")
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let path = input.parse().map_err(|error| {
            syn::Error::new(error.span(), "expected `name`, `name = value` or `name(..)`")
        })?;
        let value = if input.parse::<Option<Token![=]>>()?.is_some() {
            Value::Assigned(ungrouped(input.parse()?))
        } else if input.peek(token::Paren) {
            let inside;
            syn::parenthesized!(inside in input);
            Value::Nested(inside.parse()?)
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
            Value::Assigned(value) => value.to_tokens(tokens),
            Value::Nested(nested) => nested.to_tokens(tokens),
        }
    }
}

/// Removes the invisible groups that `macro_rules!` puts around an expression it passes on.
fn ungrouped(expression: Box<Expr>) -> Box<Expr> {
    match *expression {
        Expr::Group(group) => ungrouped(group.expr),
        _ => expression,
    }
}

/// Parses the entries of all attributes with this name. If an attribute has no entries, the error shows `example`.
pub(crate) fn entries(
    attributes: &[Attribute],
    name: &str,
    example: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<Entry> {
    let mut all = Vec::new();
    for attribute in attributes.iter().filter(|it| it.path().is_ident(name)) {
        match &attribute.meta {
            Meta::List(list) if !list.tokens.is_empty() => {
                let parser = Punctuated::<Entry, Token![,]>::parse_terminated;
                all.extend(diagnostics.ok(list.parse_args_with(parser)).into_iter().flatten());
            }
            _ => diagnostics
                .add(attribute, format_args!("`#[{name}]` needs an argument, as in `{example}`")),
        }
    }
    all
}

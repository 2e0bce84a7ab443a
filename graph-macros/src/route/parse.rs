//! Parsing of the enum, its variants, and the targets in their attributes.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Attribute, Data, DeriveInput, ExprPath, Fields, Generics, Ident, LitStr, Meta, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

use crate::diagnostics::Diagnostics;

/// The parsed input, before validation.
pub(super) struct ParsedEnum {
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// Misplaced `#[to(..)]` attributes, which are on the enum or on a variant's field.
    pub(super) misplaced: Vec<Attribute>,
    pub(super) body: Body,
}

pub(super) enum Body {
    Variants(Vec<ParsedVariant>),
    /// The keyword of another kind of type.
    Other(TokenStream),
}

/// A parsed variant, before validation.
pub(super) struct ParsedVariant {
    pub(super) ident: Ident,
    pub(super) fields: Fields,
    /// The variant's `#[to(..)]` attributes, each with the targets that could be parsed.
    pub(super) to: Vec<(Attribute, Vec<Target>)>,
}

/// A target in `#[to(..)]`.
pub(super) enum Target {
    /// The path of a node function or of `END`.
    Path(Box<ExprPath>),
    /// A node name in quotes.
    Name(LitStr),
}

impl Parse for Target {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Name(input.parse()?));
        }
        let message = "expected a node function, `END`, or a node name in quotes";
        input
            .parse()
            .map(|it| Self::Path(Box::new(it)))
            .map_err(|error| syn::Error::new(error.span(), message))
    }
}

impl ToTokens for Target {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Path(path) => path.to_tokens(tokens),
            Self::Name(name) => name.to_tokens(tokens),
        }
    }
}

pub(super) fn parse(input: DeriveInput, diagnostics: &mut Diagnostics) -> ParsedEnum {
    let DeriveInput { attrs, ident, generics, data, .. } = input;
    let mut misplaced: Vec<Attribute> = attrs.into_iter().filter(is_to).collect();
    let body = match data {
        Data::Enum(data) => {
            let fields = data.variants.iter().flat_map(|it| &it.fields);
            misplaced.extend(fields.flat_map(|it| &it.attrs).filter(|it| is_to(it)).cloned());
            Body::Variants(data.variants.into_iter().map(|it| variant(it, diagnostics)).collect())
        }
        Data::Struct(data) => Body::Other(data.struct_token.into_token_stream()),
        Data::Union(data) => Body::Other(data.union_token.into_token_stream()),
    };
    ParsedEnum { ident, generics, misplaced, body }
}

fn variant(variant: syn::Variant, diagnostics: &mut Diagnostics) -> ParsedVariant {
    let attributes = variant.attrs.into_iter().filter(is_to);
    let to = attributes.map(|it| {
        let targets = targets(&it, diagnostics);
        (it, targets)
    });
    ParsedVariant { ident: variant.ident, to: to.collect(), fields: variant.fields }
}

fn targets(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Vec<Target> {
    match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => {
            let parser = Punctuated::<Target, Token![,]>::parse_terminated;
            diagnostics.ok(list.parse_args_with(parser)).into_iter().flatten().collect()
        }
        _ => {
            diagnostics.add(attribute, "`#[to]` needs a target, as in `#[to(node)]`");
            Vec::new()
        }
    }
}

fn is_to(attribute: &Attribute) -> bool {
    attribute.path().is_ident("to")
}

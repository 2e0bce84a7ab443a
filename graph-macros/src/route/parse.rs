//! What the user wrote: the enum, its variants, and the targets in their attributes.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Attribute, Data, DeriveInput, ExprPath, Fields, Generics, Ident, LitStr, Meta, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

use crate::mistakes::Mistakes;

/// The enum as written.
pub(super) struct Written {
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// `#[to(..)]` where it does not belong: on the enum, or on a variant's field.
    pub(super) stray: Vec<Attribute>,
    pub(super) body: Body,
}

pub(super) enum Body {
    Variants(Vec<WrittenVariant>),
    Struct(syn::token::Struct),
    Union(syn::token::Union),
}

/// A variant as written.
pub(super) struct WrittenVariant {
    pub(super) ident: Ident,
    pub(super) fields: Fields,
    /// Its `#[to(..)]` attributes, as far as they could be read.
    pub(super) to: Vec<(Attribute, Vec<Target>)>,
}

/// One place that `#[to(..)]` names.
pub(super) enum Target {
    /// A node's function, or END.
    Path(Box<ExprPath>),
    /// A node's name.
    Name(LitStr),
}

impl Parse for Target {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Name(input.parse()?));
        }
        let help = "expected a node's function, END, or a node's name in quotes";
        input
            .parse()
            .map(|it| Self::Path(Box::new(it)))
            .map_err(|error| syn::Error::new(error.span(), help))
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

pub(super) fn parse(input: DeriveInput, mistakes: &mut Mistakes) -> Written {
    let DeriveInput { attrs, ident, generics, data, .. } = input;
    let mut stray: Vec<Attribute> = attrs.into_iter().filter(is_to).collect();
    let body = match data {
        Data::Enum(data) => {
            let fields = data.variants.iter().flat_map(|it| &it.fields);
            stray.extend(fields.flat_map(|it| &it.attrs).filter(|it| is_to(it)).cloned());
            Body::Variants(data.variants.into_iter().map(|it| variant(it, mistakes)).collect())
        }
        Data::Struct(data) => Body::Struct(data.struct_token),
        Data::Union(data) => Body::Union(data.union_token),
    };
    Written { ident, generics, stray, body }
}

fn variant(variant: syn::Variant, mistakes: &mut Mistakes) -> WrittenVariant {
    let attributes = variant.attrs.into_iter().filter(is_to);
    let to = attributes.map(|it| {
        let targets = targets(&it, mistakes);
        (it, targets)
    });
    WrittenVariant { ident: variant.ident, to: to.collect(), fields: variant.fields }
}

fn targets(attribute: &Attribute, mistakes: &mut Mistakes) -> Vec<Target> {
    match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => {
            let parser = Punctuated::<Target, Token![,]>::parse_terminated;
            mistakes.take(list.parse_args_with(parser)).into_iter().flatten().collect()
        }
        _ => {
            mistakes.add(attribute, "say where the variant leads: `#[to(node)]`");
            Vec::new()
        }
    }
}

fn is_to(attribute: &Attribute) -> bool {
    attribute.path().is_ident("to")
}

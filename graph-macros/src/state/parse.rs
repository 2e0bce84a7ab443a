//! Parsing of the struct, its fields, and the entries of their attributes.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Attribute, Data, DeriveInput, Fields, Generics, Ident, Type, Visibility};

use crate::{
    attribute::{Entry, entries},
    diagnostics::Diagnostics,
    syntax::{replace_self, span_of},
};

/// The parsed input, before validation.
pub(super) struct ParsedStruct {
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// The entries of `#[state(..)]` on the struct.
    pub(super) settings: Vec<Entry>,
    /// The entries of a misplaced `#[reduce(..)]` on the struct.
    pub(super) reducers: Vec<Entry>,
    pub(super) body: Body,
    /// Span of all fields, or of the name if the input is not a struct.
    pub(super) fields_span: Span,
}

pub(super) enum Body {
    Fields(Vec<ParsedField>),
    Tuple(Fields),
    Enum(syn::token::Enum),
    Union(syn::token::Union),
}

/// A parsed field, before validation.
pub(super) struct ParsedField {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    /// The entries of the field's `#[reduce(..)]`.
    pub(super) reducers: Vec<Entry>,
    /// The entries of the field's `#[state(..)]`.
    pub(super) settings: Vec<Entry>,
}

pub(super) fn parse(input: DeriveInput, diagnostics: &mut Diagnostics) -> ParsedStruct {
    let DeriveInput { attrs, vis, ident, generics, data } = input;
    let (_, arguments, _) = generics.split_for_impl();
    let this = quote!(#ident #arguments);
    let settings = entries(&attrs, "state", "#[state(version = 2)]", diagnostics);
    let reducers = entries(&attrs, "reduce", "#[reduce(append)]", diagnostics);
    let fields_span = match &data {
        Data::Struct(data) => span_of(&data.fields),
        _ => span_of(&ident),
    };
    let body = match data {
        Data::Struct(data) => match data.fields {
            fields @ Fields::Unnamed(_) => Body::Tuple(fields),
            fields => Body::Fields(
                fields.into_iter().filter_map(|it| field(it, &this, diagnostics)).collect(),
            ),
        },
        Data::Enum(data) => Body::Enum(data.enum_token),
        Data::Union(data) => Body::Union(data.union_token),
    };
    ParsedStruct { vis, ident, generics, settings, reducers, body, fields_span }
}

fn field(
    field: syn::Field,
    this: &TokenStream,
    diagnostics: &mut Diagnostics,
) -> Option<ParsedField> {
    let reducers = entries(&field.attrs, "reduce", "#[reduce(append)]", diagnostics);
    let settings = entries(&field.attrs, "state", "#[state(private)]", diagnostics);
    let ty = diagnostics.ok(syn::parse2(replace_self(field.ty.into_token_stream(), this)))?;
    let docs = field.attrs.into_iter().filter(|it| it.path().is_ident("doc")).collect();
    Some(ParsedField { ident: field.ident?, ty, docs, reducers, settings })
}

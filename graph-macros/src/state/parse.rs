//! What the user wrote: the struct, its fields, and the entries of their attributes.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Data, DeriveInput, Fields, Generics, Ident, Type, Visibility};

use crate::{
    attribute::{Entry, entries},
    mistakes::Mistakes,
    syntax::replace_self,
};

/// The struct as written.
pub(super) struct Written {
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// The entries of its `#[state(..)]`.
    pub(super) settings: Vec<Entry>,
    /// The entries of a `#[reduce(..)]` that belongs on a field.
    pub(super) reducers: Vec<Entry>,
    pub(super) body: Body,
}

pub(super) enum Body {
    Fields(Vec<WrittenField>),
    Tuple(Fields),
    Enum(syn::token::Enum),
    Union(syn::token::Union),
}

/// A field as written.
pub(super) struct WrittenField {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    /// The entries of its `#[reduce(..)]`.
    pub(super) reducers: Vec<Entry>,
    /// The entries of its `#[state(..)]`.
    pub(super) settings: Vec<Entry>,
}

pub(super) fn parse(input: DeriveInput, mistakes: &mut Mistakes) -> Written {
    let DeriveInput { attrs, vis, ident, generics, data } = input;
    let (_, arguments, _) = generics.split_for_impl();
    let this = quote!(#ident #arguments);
    let settings = entries(&attrs, "state", "#[state(version = 2)]", mistakes);
    let reducers = entries(&attrs, "reduce", "#[reduce(append)]", mistakes);
    let body = match data {
        Data::Struct(data) => match data.fields {
            fields @ Fields::Unnamed(_) => Body::Tuple(fields),
            fields => Body::Fields(
                fields.into_iter().filter_map(|it| field(it, &this, mistakes)).collect(),
            ),
        },
        Data::Enum(data) => Body::Enum(data.enum_token),
        Data::Union(data) => Body::Union(data.union_token),
    };
    Written { vis, ident, generics, settings, reducers, body }
}

fn field(field: syn::Field, this: &TokenStream, mistakes: &mut Mistakes) -> Option<WrittenField> {
    let reducers = entries(&field.attrs, "reduce", "#[reduce(append)]", mistakes);
    let settings = entries(&field.attrs, "state", "#[state(private)]", mistakes);
    let ty = mistakes.take(syn::parse2(replace_self(field.ty.into_token_stream(), this)))?;
    let docs = field.attrs.into_iter().filter(|it| it.path().is_ident("doc")).collect();
    Some(WrittenField { ident: field.ident?, ty, docs, reducers, settings })
}

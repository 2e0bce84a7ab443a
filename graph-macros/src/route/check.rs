//! What the enum means as a route, and every mistake a user can make in saying so.

use syn::{Fields, Generics, Ident, Type};

use super::parse::{Body, Target, Written, WrittenVariant};
use crate::{
    mistakes::{Mistakes, bind_all, check_lifetimes},
    syntax::argument_of,
};

/// A route whose code can be written.
pub(super) struct Route {
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// `None` if no code can be written for them.
    pub(super) variants: Option<Vec<Variant>>,
}

pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) way: Way,
}

/// Where a variant leads.
pub(super) enum Way {
    /// To these places, with nothing.
    Go(Vec<Target>),
    /// To one node, with a payload.
    One(Target, Box<Type>),
    /// To one node, with each of the payloads.
    Each(Target, Box<Type>),
}

pub(super) fn check(written: Written, mistakes: &mut Mistakes) -> Route {
    let Written { ident, mut generics, stray, body } = written;
    for attribute in stray {
        mistakes.add(attribute, "`#[to(..)]` belongs on a variant");
    }
    let owned = check_lifetimes(&generics, "a route", mistakes);
    let variants = match body {
        Body::Variants(variants) => {
            Some(variants.into_iter().map(|it| check_variant(it, mistakes)).collect())
        }
        Body::Struct(token) => {
            mistakes.add(token, "a route is an enum: one variant for each way out");
            None
        }
        Body::Union(token) => {
            mistakes.add(token, "a route is an enum: one variant for each way out");
            None
        }
    };
    let variants = variants.filter(|_| owned);
    if variants.is_none() {
        bind_all(&mut generics);
    }
    Route { ident, generics, variants }
}

fn check_variant(written: WrittenVariant, mistakes: &mut Mistakes) -> Variant {
    let WrittenVariant { ident, fields, to } = written;
    if to.is_empty() {
        mistakes.add(&ident, format_args!("say where `{ident}` leads: `#[to(node)]`"));
    }
    for (attribute, _) in to.iter().skip(1) {
        mistakes.add(attribute, "write all targets into one attribute: `#[to(a, b)]`");
    }
    let targets = to.into_iter().next().map(|it| it.1).unwrap_or_default();
    let way = check_way(targets, fields, mistakes);
    Variant { ident, way }
}

fn check_way(mut targets: Vec<Target>, fields: Fields, mistakes: &mut Mistakes) -> Way {
    if fields.is_empty() {
        return Way::Go(targets);
    }
    let payload = match &fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed[0].ty.clone(),
        _ => {
            let help = "a variant carries one payload, `Variant(Payload)`: put these into a struct";
            mistakes.add(fields, help);
            return Way::Go(Vec::new());
        }
    };
    if let Some(second) = targets.get(1) {
        mistakes.add(second, "a payload goes to one node: add a variant for this one");
    }
    let Some(target) = (!targets.is_empty()).then(|| targets.swap_remove(0)) else {
        return Way::Go(Vec::new());
    };
    if let Target::Path(path) = &target
        && path.path.segments.last().is_some_and(|it| it.ident == "END")
    {
        mistakes.add(path, "END takes no payload: drop the variant's field, or name a node");
        return Way::Go(Vec::new());
    }
    match argument_of(&payload, "Vec") {
        Some(item) => Way::Each(target, Box::new(item.clone())),
        None => Way::One(target, Box::new(payload)),
    }
}

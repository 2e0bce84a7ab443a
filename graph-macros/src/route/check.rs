//! Validation of the parsed enum.

use syn::{Fields, Generics, Ident, Type};

use super::parse::{Body, ParsedEnum, ParsedVariant, Target};
use crate::{
    diagnostics::{Diagnostics, add_required_bounds, check_lifetimes},
    syntax::argument_of,
};

/// A validated route.
pub(super) struct Route {
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// `None` if the input is invalid and no code can be generated for the variants.
    pub(super) variants: Option<Vec<Variant>>,
}

pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) destination: Destination,
}

/// The targets of a variant, and how its payload is sent to them.
pub(super) enum Destination {
    /// Goes to all of the targets, without a payload.
    Goto(Vec<Target>),
    /// Sends one payload of the given type to a node.
    Send(Target, Box<Type>),
    /// Sends each item of a `Vec` to a node. The second field is the type of an item.
    SendEach(Target, Box<Type>),
}

const ENUM_HELP: &str = "`Route` can only be derived for enums; add one variant per target";

pub(super) fn check(parsed: ParsedEnum, diagnostics: &mut Diagnostics) -> Route {
    let ParsedEnum { ident, mut generics, misplaced, body } = parsed;
    for attribute in misplaced {
        diagnostics.add(attribute, "`#[to(..)]` must be placed on a variant");
    }
    let owned = check_lifetimes(&generics, "a route", diagnostics);
    let variants = match body {
        Body::Variants(variants) => {
            Some(variants.into_iter().map(|it| check_variant(it, diagnostics)).collect())
        }
        Body::Other(keyword) => {
            diagnostics.add(keyword, ENUM_HELP);
            None
        }
    };
    let variants = variants.filter(|_| owned);
    if variants.is_none() {
        add_required_bounds(&mut generics);
    }
    Route { ident, generics, variants }
}

fn check_variant(parsed: ParsedVariant, diagnostics: &mut Diagnostics) -> Variant {
    let ParsedVariant { ident, fields, to } = parsed;
    if to.is_empty() {
        diagnostics.add(&ident, format_args!("variant `{ident}` has no target; add `#[to(node)]`"));
    }
    for (attribute, _) in to.iter().skip(1) {
        let message =
            "a variant can have only one `#[to(..)]`; list all targets in it: `#[to(a, b)]`";
        diagnostics.add(attribute, message);
    }
    let targets = to.into_iter().next().map(|it| it.1).unwrap_or_default();
    let destination = check_destination(targets, fields, diagnostics);
    Variant { ident, destination }
}

fn check_destination(
    mut targets: Vec<Target>,
    fields: Fields,
    diagnostics: &mut Diagnostics,
) -> Destination {
    if fields.is_empty() {
        return Destination::Goto(targets);
    }
    let payload = match &fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed[0].ty.clone(),
        _ => {
            let message = "a variant can carry only one payload, `Variant(Payload)`; \
                 combine the fields into a struct and use it as payload";
            diagnostics.add(fields, message);
            return Destination::Goto(Vec::new());
        }
    };
    if let Some(second) = targets.get(1) {
        let message = "a payload can be sent to one node only; add another variant for this target";
        diagnostics.add(second, message);
    }
    let Some(target) = (!targets.is_empty()).then(|| targets.swap_remove(0)) else {
        return Destination::Goto(Vec::new());
    };
    if let Target::Path(path) = &target {
        if path.path.segments.last().is_some_and(|it| it.ident == "END") {
            let message =
                "`END` accepts no payload; remove the variant's field or use a node as target";
            diagnostics.add(path, message);
            return Destination::Goto(Vec::new());
        }
    }
    match argument_of(&payload, "Vec") {
        Some(item) => Destination::SendEach(target, Box::new(item.clone())),
        None => Destination::Send(target, Box::new(payload)),
    }
}

//! Helpers for the code that `#[derive(Route)]` generates. Not part of the public API.

use std::marker::PhantomData;

use serde::Serialize;

use crate::{
    command::{
        route::RouteTarget,
        target::{AcceptsPayload, RunsOnState},
    },
    goto::{Goto, Gotos},
    label::{END_NAME, End, Label},
};

/// The target of a variant without a payload.
#[diagnostic::on_unimplemented(
    message = "a route variant without payload cannot lead to `{Self}`",
    label = "expected a node that runs on the state, `END`, or a node's name",
    note = "if the node takes a payload, add it to the variant: `Variant(Payload)` or `Variant(Vec<Payload>)`"
)]
pub trait VariantTarget<M> {
    fn into_label(self) -> Label;
}

#[derive(Debug)]
pub struct IsEnd;
#[derive(Debug)]
pub struct IsName;
#[derive(Debug)]
pub struct IsNode<M>(PhantomData<M>);

impl VariantTarget<IsEnd> for End {
    fn into_label(self) -> Label {
        Label::from(END_NAME)
    }
}

impl VariantTarget<IsName> for &'static str {
    fn into_label(self) -> Label {
        Label::from(self)
    }
}

#[diagnostic::do_not_recommend]
impl<N: RunsOnState<M>, M> VariantTarget<IsNode<M>> for N {
    fn into_label(self) -> Label {
        self.label()
    }
}

/// Returns the name of the target of a variant without a payload.
pub fn target_label<M>(target: impl VariantTarget<M>) -> Label {
    target.into_label()
}

/// Returns the name of a node that accepts payloads of type `P`.
pub fn payload_target_label<P, M, N: AcceptsPayload<P, M>>(
    node: &N,
    _payload: PhantomData<P>,
) -> Label {
    node.label()
}

pub fn route_target(to: Label, variant: &'static str, sends: bool) -> RouteTarget {
    RouteTarget { to, variant: Label::from(variant), sends }
}

pub fn push_goto(gotos: &mut Gotos, to: Label) {
    gotos.push(Goto { to, payload: None });
}

pub fn push_send<P: Serialize + Send + Sync + 'static>(gotos: &mut Gotos, to: Label, payload: P) {
    gotos.push(Goto::send_typed(to, payload));
}

#[expect(clippy::needless_pass_by_value, reason = "the derive passes a temporary label")]
pub fn push_sends<P: Serialize + Send + Sync + 'static>(
    gotos: &mut Gotos,
    to: Label,
    payloads: impl IntoIterator<Item = P>,
) {
    gotos.extend(payloads.into_iter().map(|it| Goto::send_typed(to.clone(), it)));
}

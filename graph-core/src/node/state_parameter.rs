//! First parameters of functions that can be the target of an edge or a route.

use crate::state::State;

/// A first parameter that is not a payload but a reference to the state `S`, or by mistake a mutable reference or the
/// state itself. `K` is [`ByReference`] or [`ByValue`].
pub trait StateParameter<S, K> {}

#[doc(hidden)]
#[derive(Debug)]
pub struct ByReference;

#[doc(hidden)]
#[derive(Debug)]
pub struct ByValue;

impl<S> StateParameter<S, ByReference> for &S {}

impl<S> StateParameter<S, ByReference> for &mut S {}

impl<S: State> StateParameter<S, ByValue> for S {}

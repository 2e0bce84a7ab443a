//! First parameters of functions that can be the target of an edge or a route.

use crate::state::State;

/// A first parameter that is not a payload: a reference, or the state itself by mistake. `K` is [`ByReference`] or
/// [`ByValue`].
pub trait StateParameter<K> {}

#[doc(hidden)]
#[derive(Debug)]
pub struct ByReference;

#[doc(hidden)]
#[derive(Debug)]
pub struct ByValue;

impl<T: ?Sized> StateParameter<ByReference> for &T {}

impl<T: ?Sized> StateParameter<ByReference> for &mut T {}

impl<S: State> StateParameter<ByValue> for S {}

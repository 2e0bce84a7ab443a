//! Types that generated code checks once. Not part of the public API.
//!
//! Generated code uses a user-defined type in many places. If the type lacks a trait, the compiler would report an
//! error at each of these places and at each use of the generated code. `<Checked<{ check::<T>() }> as Then<T>>::Type`
//! is `T`, but if the constant does not compile, the compiler reports only the error in the constant.

use crate::state::reduce::CustomReducer;

/// The result of a check. A check that fails does not compile.
#[derive(Debug)]
pub struct Checked<const VALID: bool>;

/// Selects the type that was checked.
pub trait Then<T> {
    /// The type `T` itself.
    type Type;
}

impl<T> Then<T> for Checked<true> {
    type Type = T;
}

/// Checks that `R` is a reducer of fields of type `T`.
pub const fn reducer<R: CustomReducer<T>, T>() -> bool {
    true
}

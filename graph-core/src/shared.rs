//! Values that are shared with runs and stores: a checkpointer, a store, a cache, an embedder.

use std::sync::Arc;

use crate::{cache::Cache, checkpoint::saver::Checkpointer, store::interface::Store};

/// A value, an `Arc` of a value, or an `Arc<dyn ..>`, where `T` is the trait object.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a `{T}`",
    label = "expected a value that implements the trait, or an `Arc` of one"
)]
pub trait IntoShared<T: ?Sized, M> {
    /// Converts the value into a shared trait object.
    fn into_shared(self) -> Arc<T>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsObject;

#[doc(hidden)]
#[derive(Debug)]
pub struct IsArc;

#[doc(hidden)]
#[derive(Debug)]
pub struct IsValue;

impl<T: ?Sized> IntoShared<T, IsObject> for Arc<T> {
    fn into_shared(self) -> Self {
        self
    }
}

/// Implements [`IntoShared`] for the values of traits, and for `Arc`s of them.
macro_rules! impl_into_shared {
    ($($interface:ident),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<V: $interface + 'static>
            $crate::shared::IntoShared<dyn $interface, $crate::shared::IsArc>
            for ::std::sync::Arc<V>
        {
            fn into_shared(self) -> ::std::sync::Arc<dyn $interface> {
                self
            }
        }

        #[diagnostic::do_not_recommend]
        impl<V: $interface + 'static>
            $crate::shared::IntoShared<dyn $interface, $crate::shared::IsValue> for V
        {
            fn into_shared(self) -> ::std::sync::Arc<dyn $interface> {
                ::std::sync::Arc::new(self)
            }
        }
    )*};
}

pub(crate) use impl_into_shared;

impl_into_shared!(Checkpointer, Store, Cache);

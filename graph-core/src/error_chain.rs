//! The `Debug` form of public errors.

use std::{
    error::Error,
    fmt::{self, Display},
};

/// Formats an error for `Debug`: its message, then its causes, one per line. A cause that is already part of the
/// message above it is not repeated.
///
/// A `main` that returns an error prints its `Debug` form, so this is the form that users see.
pub fn debug(
    f: &mut fmt::Formatter<'_>,
    message: &dyn Display,
    cause: Option<&(dyn Error + 'static)>,
) -> fmt::Result {
    let mut above = message.to_string();
    f.write_str(&above)?;
    let mut next = cause;
    let mut heading = "\n\ncaused by:";
    while let Some(cause) = next {
        let text = cause.to_string();
        if !above.contains(&text) {
            write!(f, "{heading}\n  {text}")?;
            heading = "";
        }
        above = text;
        next = cause.source();
    }
    Ok(())
}

/// Implements `Debug` for an error type with `debug`, in place of the derive.
#[doc(hidden)]
#[macro_export]
macro_rules! readable_debug {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::error_chain::debug(f, self, ::std::error::Error::source(self))
            }
        }
    };
}

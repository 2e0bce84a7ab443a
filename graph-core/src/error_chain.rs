//! The `Debug` form of public errors.

use std::{
    error::Error,
    fmt::{self, Display},
};

/// Formats an error for `Debug`: its message, then its causes, one per line.
///
/// A `main` that returns an error prints its `Debug` form, so this is the form that users see.
pub(crate) fn debug(
    f: &mut fmt::Formatter<'_>,
    message: &dyn Display,
    cause: Option<&(dyn Error + 'static)>,
) -> fmt::Result {
    write!(f, "{message}")?;
    let mut next = cause;
    let mut heading = "\n\ncaused by:";
    while let Some(cause) = next {
        write!(f, "{heading}\n  {cause}")?;
        heading = "";
        next = cause.source();
    }
    Ok(())
}

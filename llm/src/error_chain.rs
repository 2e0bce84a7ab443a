//! The `Debug` form of public errors.

use std::{error::Error, fmt};

/// Formats an error for `Debug`: its message, then its causes, one per line. A cause that is already part of the
/// message above it is not repeated.
///
/// A `main` that returns an error prints its `Debug` form, so this is the form that users see.
pub(crate) fn debug(f: &mut fmt::Formatter<'_>, error: &dyn Error) -> fmt::Result {
    let mut above = error.to_string();
    f.write_str(&above)?;
    let mut next = error.source();
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
macro_rules! readable_debug {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::error_chain::debug(f, self)
            }
        }
    };
}

pub(crate) use readable_debug;

#[cfg(test)]
mod tests {
    use std::io;

    #[derive(thiserror::Error)]
    #[error("cannot fetch {0}")]
    struct FetchError(&'static str, #[source] ConnectionError);

    #[derive(thiserror::Error)]
    #[error("no connection: {0}")]
    struct ConnectionError(#[source] io::Error);

    super::readable_debug!(FetchError);
    super::readable_debug!(ConnectionError);

    #[test]
    fn debug_shows_the_message_and_its_causes() {
        let cause = ConnectionError(io::Error::other("refused"));
        assert_eq!(format!("{cause:?}"), "no connection: refused");
        let error = FetchError("the page", cause);
        assert_eq!(
            format!("{error:?}"),
            "cannot fetch the page\n\ncaused by:\n  no connection: refused"
        );
    }
}

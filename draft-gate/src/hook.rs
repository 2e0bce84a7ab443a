//! A hook that is called before every write and sync. Tests use it to kill the process or to simulate a failure at that
//! point.

use std::{fmt, sync::Arc};

/// Calls a function with the next operation and the path to which it applies, relative to the workspace.
#[derive(Clone, Default)]
pub(crate) struct Hook(Option<Arc<dyn Fn(&'static str, &str) + Send + Sync>>);

impl Hook {
    pub(crate) fn new(call: impl Fn(&'static str, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(call)))
    }

    pub(crate) fn notify(&self, what: &'static str, path: impl FnOnce() -> String) {
        if let Some(call) = &self.0 {
            call(what, &path());
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

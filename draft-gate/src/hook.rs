//! A test hook that is called before every write, for tests that kill the process at that point.

#[cfg(feature = "testkit")]
use std::sync::Arc;

/// Calls a function before each write and sync, with the operation and the path in the workspace. Does nothing unless
/// the feature `testkit` is enabled.
#[derive(Clone, Default)]
pub(crate) struct Hook {
    #[cfg(feature = "testkit")]
    call: Option<Arc<dyn Fn(&'static str, &str) + Send + Sync>>,
}

impl Hook {
    #[cfg(feature = "testkit")]
    pub(crate) fn new(call: impl Fn(&'static str, &str) + Send + Sync + 'static) -> Self {
        Self { call: Some(Arc::new(call)) }
    }

    #[cfg_attr(not(feature = "testkit"), expect(clippy::unused_self, reason = "there is no hook"))]
    pub(crate) fn notify(&self, _what: &'static str, _path: impl FnOnce() -> String) {
        #[cfg(feature = "testkit")]
        if let Some(call) = &self.call {
            call(_what, &_path());
        }
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

//! Time to live: when items expire.

use std::time::Duration;

/// Sets how a store lets items expire.
///
/// ```
/// use std::time::Duration;
/// use graph_core::store::{InMemoryStore, TtlConfig};
///
/// let week = Duration::from_secs(7 * 24 * 3600);
/// let store = InMemoryStore::new()
///     .with_ttl(TtlConfig { default_ttl: Some(week), ..TtlConfig::default() });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlConfig {
    /// How long an item lives whose put does not say; `None` is for ever.
    pub default_ttl: Option<Duration>,
    /// Whether reading an item starts its time anew, unless the read says otherwise.
    pub refresh_on_read: bool,
    /// Whether reads leave out what has expired; if not, it stays until a sweep.
    pub omit_expired: bool,
}

impl Default for TtlConfig {
    fn default() -> Self {
        Self { default_ttl: None, refresh_on_read: true, omit_expired: true }
    }
}

impl TtlConfig {
    /// Gives the lifetime of an item put with `ttl`; `None` is for ever.
    pub fn lifetime(&self, ttl: Ttl) -> Option<Duration> {
        match ttl {
            Ttl::Default => self.default_ttl,
            Ttl::Never => None,
            Ttl::After(lifetime) => Some(lifetime),
        }
    }
}

/// Says how long an item lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ttl {
    /// As the store's [`TtlConfig`] says.
    #[default]
    Default,
    /// For ever.
    Never,
    /// So long after the put or, if reads refresh, the last read.
    After(Duration),
}

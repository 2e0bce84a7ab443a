//! Expiry of items.

use std::time::Duration;

/// Expiry rules of a store.
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
    /// Lifetime of items whose put does not set one. If `None`, they never expire.
    pub default_ttl: Option<Duration>,
    /// Whether reading an item restarts its lifetime, unless the read request overrides this default.
    pub refresh_on_read: bool,
    /// Whether reads omit expired items. If false, expired items remain visible until a sweep removes them.
    pub omit_expired: bool,
}

impl Default for TtlConfig {
    fn default() -> Self {
        Self { default_ttl: None, refresh_on_read: true, omit_expired: true }
    }
}

impl TtlConfig {
    /// Returns the lifetime of an item written with `ttl`. `None` means that the item never expires.
    pub fn lifetime(&self, ttl: Ttl) -> Option<Duration> {
        match ttl {
            Ttl::Default => self.default_ttl,
            Ttl::Never => None,
            Ttl::After(lifetime) => Some(lifetime),
        }
    }
}

/// The lifetime of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ttl {
    /// The item has the default lifetime of the store's [`TtlConfig`].
    #[default]
    Default,
    /// The item never expires.
    Never,
    /// The item expires this long after the put or, if reads restart the lifetime, after the last read.
    After(Duration),
}

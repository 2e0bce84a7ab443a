//! Items as they are read from the database.

use graph_core::store::{Address, Item, StoreError, backend::TtlContext};
use serde_json::Value;

use super::names::ItemKey;
use crate::{
    codec::Codec,
    time::{nanos, time},
};

/// An item that was read from the database.
#[derive(Debug)]
pub(crate) struct StoredItem {
    pub(crate) at: ItemKey,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) lifetime: Option<i64>,
    pub(crate) value: Vec<u8>,
}

impl StoredItem {
    pub(crate) fn into_item(self, codec: &Codec) -> Result<Item, StoreError> {
        let at = self.at.address()?;
        let value = decode_value(codec, &at, &self.value)?;
        Ok(Item::new(at, value, time(self.created_at), time(self.updated_at)))
    }

    /// Returns the lifetime extension that reading the item causes, if any. `requested` overrides the configured
    /// default.
    pub(crate) fn ttl_refresh(
        &self,
        requested: Option<bool>,
        moment: TtlContext,
    ) -> Option<TtlRefresh> {
        let lifetime = self.lifetime.filter(|_| moment.should_refresh(requested))?;
        let expires_at = nanos(moment.now).saturating_add(lifetime);
        Some(TtlRefresh { at: self.at.clone(), lifetime, expires_at })
    }
}

/// A lifetime extension. It is not applied if the item's lifetime has changed since the item was read.
#[derive(Debug)]
pub(crate) struct TtlRefresh {
    pub(crate) at: ItemKey,
    pub(crate) lifetime: i64,
    pub(crate) expires_at: i64,
}

/// Decodes the value of an item.
pub(super) fn decode_value(codec: &Codec, at: &Address, value: &[u8]) -> Result<Value, StoreError> {
    codec.decode(|| format!("the value of `{at}`"), value).map_err(StoreError::backend)
}

//! Long-term memory stored in rows. This module contains the code that both databases share.
//!
//! Each item is one row. Its namespace and key are stored as bytes that sort in the same order as the names; see
//! [`names`]. The value and the vectors are encoded and, if configured, encrypted. Vectors are encrypted too
//! because texts can be inferred from them. Names and times are not encrypted.

mod collector;
mod failures;
mod names;
mod stored_item;
mod vectors;

use graph_core::store::{
    Get, ListNamespaces, Namespace, Op, Put, Search, StoreError,
    backend::{Settings, TtlContext},
};
use serde_json::Value;

pub use self::failures::CacheFailures;
use self::vectors::Vectors;
pub(crate) use self::{
    collector::SearchCollector,
    failures::FailureCounter,
    names::{ItemKey, decode_namespace, prefix_range},
    stored_item::{StoredItem, TtlRefresh},
};
use crate::{
    codec::Codec,
    time::{lifetime, nanos},
};

/// A validated and encoded operation. After preparation, only the database can fail.
#[derive(Debug)]
pub(crate) enum PreparedOp {
    Put(NewItem),
    Get(Get),
    Delete(ItemKey),
    Search(Search, Option<Vec<f32>>),
    List(ListNamespaces),
}

/// An item that is about to be written.
#[derive(Debug)]
pub(crate) struct NewItem {
    pub(crate) at: ItemKey,
    pub(crate) lifetime: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) vectors: Option<Vec<u8>>,
    pub(crate) value: Vec<u8>,
}

/// Validates and encodes operations. Also returns the time for expiry checks, which is read after the texts have been
/// embedded.
pub(crate) async fn prepare(
    settings: &Settings,
    codec: &Codec,
    ops: Vec<Op>,
) -> Result<(Vec<PreparedOp>, TtlContext), StoreError> {
    let prepared = settings.prepare(ops).await?;
    let moment = settings.ttl_context();
    let prepared_ops = prepared.into_iter().map(|(op, vectors)| {
        Ok(match op {
            Op::Put(put) => PreparedOp::Put(NewItem::new(codec, put, &vectors, moment)?),
            Op::Get(get) => PreparedOp::Get(get),
            Op::Delete(at) => PreparedOp::Delete(ItemKey::of(&at)),
            Op::Search(search) => PreparedOp::Search(search, vectors.into_iter().next()),
            Op::List(list) => PreparedOp::List(list),
            other => return Err(StoreError::backend(format!("unsupported operation {other:?}"))),
        })
    });
    Ok((prepared_ops.collect::<Result<_, _>>()?, moment))
}

impl PreparedOp {
    /// Returns whether the operation is a put or a delete. Reads can extend lifetimes, but are not writes.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Self::Put(_) | Self::Delete(_))
    }
}

impl NewItem {
    fn new(
        codec: &Codec,
        put: Put,
        vectors: &[Vec<f32>],
        moment: TtlContext,
    ) -> Result<Self, StoreError> {
        let Put { at, value, ttl, .. } = put;
        let value = codec.encode(|| format!("the value of `{at}`"), &Value::Object(value));
        let vectors =
            Vectors::new(vectors).map(|it| codec.encode(|| format!("the vectors of `{at}`"), &it));
        let lifetime = moment.ttl.lifetime(ttl).and_then(lifetime);
        Ok(Self {
            at: ItemKey::of(&at),
            lifetime,
            expires_at: lifetime.map(|it| nanos(moment.now).saturating_add(it)),
            vectors: vectors.transpose().map_err(StoreError::backend)?,
            value: value.map_err(StoreError::backend)?,
        })
    }
}

/// Returns the cutoff time: items that expire at or before it are hidden. Returns [`i64::MIN`] if expired items
/// stay visible until a sweep removes them.
pub(crate) fn expiry_cutoff(moment: TtlContext) -> i64 {
    if moment.ttl.omit_expired { nanos(moment.now) } else { i64::MIN }
}

/// Returns the namespaces in `found` that match the query `list`. `found` must be sorted.
pub(crate) fn choose_namespaces(
    list: &ListNamespaces,
    found: impl IntoIterator<Item = Vec<u8>>,
) -> Result<Vec<Namespace>, StoreError> {
    let found: Vec<_> =
        found.into_iter().map(|it| decode_namespace(&it)).collect::<Result<_, _>>()?;
    list.select_page(&found)
}

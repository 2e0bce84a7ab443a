//! Long-term memory as rows: what both databases do alike before and after their statements.
//!
//! An item is one row. Its namespace and key are bytes that sort as the names do: see [`names`]. Its value goes
//! through the codec, and so do its vectors, for texts can be guessed from them. Names and times are not encrypted.

mod failures;
mod finder;
mod names;
mod vectors;

use graph_core::store::{
    Address, Get, Item, ListNamespaces, Namespace, Op, Put, Search, StoreError,
    backend::{Moment, Settings},
};
use serde_json::Value;

pub use self::failures::CacheFailures;
use self::vectors::Vectors;
pub(crate) use self::{
    failures::Failures,
    finder::Finder,
    names::{Spot, namespace, range},
};
use crate::{
    codec::Codec,
    time::{lifetime, nanos, time},
};

/// An operation that is checked and encoded, so that only the database can fail it.
#[derive(Debug)]
pub(crate) enum Work {
    Put(NewItem),
    Get(Get),
    Delete(Spot),
    Search(Search, Option<Vec<f32>>),
    List(ListNamespaces),
}

/// An item to be written.
#[derive(Debug)]
pub(crate) struct NewItem {
    pub(crate) at: Spot,
    pub(crate) lifetime: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) vectors: Option<Vec<u8>>,
    pub(crate) value: Vec<u8>,
}

/// Makes operations ready; the time is that of the moment after their texts were embedded.
pub(crate) async fn prepare(
    settings: &Settings,
    codec: &Codec,
    ops: Vec<Op>,
) -> Result<(Vec<Work>, Moment), StoreError> {
    let prepared = settings.prepare(ops).await?;
    let moment = settings.moment();
    let works = prepared.into_iter().map(|(op, vectors)| {
        Ok(match op {
            Op::Put(put) => Work::Put(NewItem::new(codec, put, &vectors, moment)?),
            Op::Get(get) => Work::Get(get),
            Op::Delete(at) => Work::Delete(Spot::of(&at)),
            Op::Search(search) => Work::Search(search, vectors.into_iter().next()),
            Op::List(list) => Work::List(list),
            other => return Err(StoreError::backend(format!("{other:?} is not known here"))),
        })
    });
    Ok((works.collect::<Result<_, _>>()?, moment))
}

impl Work {
    /// Whether it changes items, beyond prolonging a life.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Put(_) | Self::Delete(_))
    }
}

impl NewItem {
    fn new(
        codec: &Codec,
        put: Put,
        vectors: &[Vec<f32>],
        moment: Moment,
    ) -> Result<Self, StoreError> {
        let Put { at, value, ttl, .. } = put;
        let value = codec.encode(|| format!("the value of `{at}`"), &Value::Object(value));
        let vectors =
            Vectors::new(vectors).map(|it| codec.encode(|| format!("the vectors of `{at}`"), &it));
        let lifetime = moment.ttl.lifetime(ttl).and_then(lifetime);
        Ok(Self {
            at: Spot::of(&at),
            lifetime,
            expires_at: lifetime.map(|it| nanos(moment.now).saturating_add(it)),
            vectors: vectors.transpose().map_err(StoreError::backend)?,
            value: value.map_err(StoreError::backend)?,
        })
    }
}

/// An item as it was read.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) at: Spot,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) lifetime: Option<i64>,
    pub(crate) value: Vec<u8>,
}

impl Stored {
    pub(crate) fn into_item(self, codec: &Codec) -> Result<Item, StoreError> {
        let at = self.at.address()?;
        let value = decode(codec, &at, &self.value)?;
        Ok(Item::new(at, value, time(self.created_at), time(self.updated_at)))
    }

    /// How its life is prolonged by a read that asks so.
    pub(crate) fn touch(&self, asked: Option<bool>, moment: Moment) -> Option<Touch> {
        let lifetime = self.lifetime.filter(|_| moment.refreshes(asked))?;
        let expires_at = nanos(moment.now).saturating_add(lifetime);
        Some(Touch { at: self.at.clone(), lifetime, expires_at })
    }
}

/// A life to be prolonged, unless the item was given another one since it was read.
#[derive(Debug)]
pub(crate) struct Touch {
    pub(crate) at: Spot,
    pub(crate) lifetime: i64,
    pub(crate) expires_at: i64,
}

/// What has expired at this time or before is hidden; nothing is, if reads show all until a sweep.
pub(crate) fn hidden_until(moment: Moment) -> i64 {
    if moment.ttl.omit_expired { nanos(moment.now) } else { i64::MIN }
}

/// Makes the answer to a listing of all namespaces that were found, in order.
pub(crate) fn listed(
    list: &ListNamespaces,
    found: impl IntoIterator<Item = Vec<u8>>,
) -> Result<Vec<Namespace>, StoreError> {
    let found: Vec<_> = found.into_iter().map(|it| namespace(&it)).collect::<Result<_, _>>()?;
    list.choose(&found)
}

fn decode(codec: &Codec, at: &Address, value: &[u8]) -> Result<Value, StoreError> {
    codec.decode(|| format!("the value of `{at}`"), value).map_err(StoreError::backend)
}

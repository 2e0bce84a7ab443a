//! Collects the result page of a search.

use graph_core::store::{
    Filter, Item, Search, StoreError,
    backend::{Ranking, TtlContext},
};

use super::{
    stored_item::{StoredItem, TtlRefresh, decode_value},
    vectors::Vectors,
};
use crate::codec::Codec;

pub(crate) struct SearchCollector<'a> {
    codec: &'a Codec,
    search: &'a Search,
    ranking: Ranking<'a, StoredItem>,
}

impl<'a> SearchCollector<'a> {
    pub(crate) fn new(
        codec: &'a Codec,
        search: &'a Search,
        query: Option<&'a [f32]>,
    ) -> Result<Self, StoreError> {
        Ok(Self { codec, search, ranking: Ranking::new(search, query)? })
    }

    /// Considers the next row, in key order. The row includes its vectors if the search has a query.
    pub(crate) fn offer(
        &mut self,
        row: StoredItem,
        vectors: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        if self.search.filter != Filter::default() {
            let value = decode_value(self.codec, &row.at.address()?, &row.value)?;
            if !self.search.filter.matches(&value) {
                return Ok(());
            }
        }
        let score = match vectors {
            Some(bytes) if self.search.query.is_some() => {
                let what = || format!("the vectors of {:?}", row.at.address());
                let vectors: Vectors =
                    self.codec.decode(what, bytes).map_err(StoreError::backend)?;
                self.ranking.score(vectors.each())
            }
            _ => None,
        };
        self.ranking.offer(score, row);
        Ok(())
    }

    /// Returns whether the page is complete, so that no later row can change it.
    pub(crate) fn is_full(&self) -> bool {
        self.ranking.is_full()
    }

    /// Returns the page and the lifetime extensions that reading its items causes.
    pub(crate) fn finish(
        self,
        moment: TtlContext,
    ) -> Result<(Vec<Item>, Vec<TtlRefresh>), StoreError> {
        let (mut items, mut refreshes) = (Vec::new(), Vec::new());
        for (score, row) in self.ranking.into_page() {
            refreshes.extend(row.ttl_refresh(self.search.refresh_ttl, moment));
            let mut item = row.into_item(self.codec)?;
            item.score = score;
            items.push(item);
        }
        Ok((items, refreshes))
    }
}

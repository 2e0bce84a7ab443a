//! A search at work: takes the rows under its prefix in order, and gives the page asked for.

use graph_core::store::{
    Filter, Item, Search, StoreError,
    backend::{Moment, Ranking},
};

use super::{Stored, Touch, Vectors, decode};
use crate::codec::Codec;

pub(crate) struct Finder<'a> {
    codec: &'a Codec,
    search: &'a Search,
    ranking: Ranking<'a, Stored>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(
        codec: &'a Codec,
        search: &'a Search,
        query: Option<&'a [f32]>,
    ) -> Result<Self, StoreError> {
        Ok(Self { codec, search, ranking: Ranking::new(search, query)? })
    }

    /// Takes the next row, with its vectors if there is a query.
    pub(crate) fn take(&mut self, row: Stored, vectors: Option<&[u8]>) -> Result<(), StoreError> {
        if self.search.filter != Filter::default() {
            let value = decode(self.codec, &row.at.address()?, &row.value)?;
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

    /// Whether no later row can come into the page.
    pub(crate) fn is_full(&self) -> bool {
        self.ranking.is_full()
    }

    /// Gives the page, and the lives it prolongs.
    pub(crate) fn finish(self, moment: Moment) -> Result<(Vec<Item>, Vec<Touch>), StoreError> {
        let (mut items, mut touches) = (Vec::new(), Vec::new());
        for (score, row) in self.ranking.into_page() {
            touches.extend(row.touch(self.search.refresh_ttl, moment));
            let mut item = row.into_item(self.codec)?;
            item.score = score;
            items.push(item);
        }
        Ok((items, touches))
    }
}

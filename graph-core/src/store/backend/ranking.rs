//! Ranking and paging of search hits.

use std::ops::Range;

use crate::store::{error::StoreError, index::similarity, query::Search};

/// Collects the hits of a search and selects the requested page.
///
/// Hits must be offered sorted by namespace and key. Without a query, they keep this order. The number of hits kept in
/// memory depends on the end of the page, not on the number of hits offered.
///
/// ```
/// use graph_core::store::{Search, backend::Ranking};
///
/// let search = Search::everything().limit(2);
/// let mut ranking = Ranking::new(&search, Some(&[1.0, 0.0]))?;
/// let (far, near) = ([0.0, 1.0], [0.6, 0.8]);
/// ranking.offer(ranking.score([]), "no vector");
/// ranking.offer(ranking.score([&far[..]]), "far");
/// ranking.offer(ranking.score([&far[..], &near]), "near");
/// let page: Vec<_> = ranking.into_page().collect();
/// assert_eq!(page, [(Some(0.6), "near"), (Some(0.0), "far")]);
/// # Ok::<(), graph_core::store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Ranking<'a, T> {
    page: Range<usize>,
    query: Option<&'a [f32]>,
    hits: Vec<(Option<f32>, T)>,
}

impl<'a, T> Ranking<'a, T> {
    /// Creates a ranking without hits. `query` is the vector of the search's query.
    pub fn new(search: &Search, query: Option<&'a [f32]>) -> Result<Self, StoreError> {
        Ok(Self { page: search.page()?, query, hits: Vec::new() })
    }

    /// Returns the score of an item: the similarity of its best vector to the query. Returns `None` if there is no
    /// query or no comparable vector.
    ///
    /// Ignores vectors whose length differs from that of the query, because they were written with another index.
    pub fn score<'v>(&self, vectors: impl IntoIterator<Item = &'v [f32]>) -> Option<f32> {
        let query = self.query?;
        let comparable = vectors.into_iter().filter(|it| it.len() == query.len());
        comparable.map(|it| similarity(it, query)).max_by(f32::total_cmp)
    }

    /// Adds a hit.
    pub fn offer(&mut self, score: Option<f32>, hit: T) {
        self.hits.push((score, hit));
        if self.hits.len() > self.page.end.saturating_mul(2).saturating_add(SLACK) {
            self.truncate();
        }
    }

    /// Returns whether the page is complete, so that further hits would be ignored.
    pub fn is_full(&self) -> bool {
        self.query.is_none() && self.hits.len() >= self.page.end
    }

    /// Returns the hits of the requested page, best first.
    pub fn into_page(mut self) -> impl Iterator<Item = (Option<f32>, T)> {
        self.truncate();
        self.hits.into_iter().skip(self.page.start)
    }

    /// Sorts the hits and drops those beyond the end of the page.
    fn truncate(&mut self) {
        let rank = |score: Option<f32>| score.unwrap_or(f32::NEG_INFINITY);
        // The sort must be stable, so that hits with equal scores keep the order in which they were offered.
        self.hits.sort_by(|(left, _), (right, _)| rank(*right).total_cmp(&rank(*left)));
        self.hits.truncate(self.page.end);
    }
}

/// Number of hits that may be kept in addition to twice the end of the page. Without this reserve, a small page would
/// be sorted on almost every offer.
const SLACK: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_does_not_change_the_page() {
        // Scores repeat, to test the order of equal scores.
        let score = |n: u32| (n * 7919 % 50) as f32 / 50.0;
        let all = 1_000;
        let mut sorted: Vec<u32> = (0..all).collect();
        sorted.sort_by(|left, right| score(*right).total_cmp(&score(*left)));
        for (offset, limit) in [(0, 1), (3, 40), (990, 20), (0, usize::MAX), (5_000, 1)] {
            let search = Search::everything().offset(offset).limit(limit);
            let mut ranking = Ranking::new(&search, Some(&[1.0])).unwrap();
            for n in 0..all {
                ranking.offer(ranking.score([[score(n)].as_slice()]), n);
                assert!(!ranking.is_full());
            }
            let page: Vec<u32> = ranking.into_page().map(|(_, n)| n).collect();
            let expected: Vec<u32> = sorted.iter().skip(offset).take(limit).copied().collect();
            assert_eq!(page, expected, "offset {offset}, limit {limit}");
        }
    }

    #[test]
    fn ranking_without_query_is_full_when_the_page_is_complete() {
        let mut ranking = Ranking::new(&Search::everything().offset(1).limit(2), None).unwrap();
        for n in 0..3 {
            assert!(!ranking.is_full());
            ranking.offer(None, n);
        }
        assert!(ranking.is_full());
        assert_eq!(ranking.into_page().collect::<Vec<_>>(), [(None, 1), (None, 2)]);
    }
}

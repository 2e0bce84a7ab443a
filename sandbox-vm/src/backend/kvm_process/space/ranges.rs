//! The set of addresses in use, stored as ranges that neither touch nor overlap.

use std::{collections::BTreeMap, ops::Range};

/// Maximum number of ranges, so that a guest cannot fill the monitor's memory.
const MAX_RANGES: usize = 1 << 16;

/// A set of addresses, stored as ranges.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    /// End of each range, by its start.
    taken: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range, parts of which may already be in the set. Returns `None` if there are too many ranges.
    pub(super) fn insert(&mut self, mut range: Range<u64>) -> Option<()> {
        let touching = self.taken.range(..=range.end).rev();
        let touching = touching.take_while(|(_, end)| **end >= range.start);
        let merged: Vec<_> = touching.map(|(start, end)| (*start, *end)).collect();
        if merged.is_empty() && self.taken.len() >= MAX_RANGES {
            return None;
        }
        for (start, end) in merged {
            self.taken.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.taken.insert(range.start, range.end);
        Some(())
    }

    /// Removes a range, parts of which may not be in the set. Returns `None` if there could be too many ranges
    /// afterwards.
    pub(super) fn remove(&mut self, range: &Range<u64>) -> Option<()> {
        let overlapping = self.taken.range(..range.end).rev();
        let overlapping = overlapping.take_while(|(_, end)| **end > range.start);
        let cut: Vec<_> = overlapping.map(|(start, end)| (*start, *end)).collect();
        if !cut.is_empty() && self.taken.len() >= MAX_RANGES {
            return None;
        }
        for (start, end) in cut {
            self.taken.remove(&start);
            if start < range.start {
                self.taken.insert(start, range.start);
            }
            if end > range.end {
                self.taken.insert(range.end, end);
            }
        }
        Some(())
    }

    /// Returns whether all of the range is in the set.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        let before = self.taken.range(..=range.start).next_back();
        before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// Returns whether no part of the range is in the set.
    pub(super) fn is_free(&self, range: &Range<u64>) -> bool {
        let before = self.taken.range(..range.end).next_back();
        before.is_none_or(|(_, end)| *end <= range.start)
    }

    /// Returns the first range in `window` that has the length `len` and does not overlap with the set.
    pub(super) fn find_gap(&self, len: u64, window: Range<u64>) -> Option<Range<u64>> {
        let mut start = window.start;
        for (taken, end) in &self.taken {
            if *end <= start {
                continue;
            }
            if *taken >= start.checked_add(len)? {
                break;
            }
            start = *end;
        }
        let end = start.checked_add(len)?;
        (end <= window.end).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::RangeSet;

    #[test]
    fn ranges_merge_split_and_leave_gaps() {
        let mut ranges = RangeSet::default();
        for range in [10..20, 30..40, 20..25] {
            ranges.insert(range).unwrap();
        }
        assert!(ranges.covers(&(10..25)) && !ranges.covers(&(10..31)) && ranges.is_free(&(25..30)));
        assert_eq!(ranges.find_gap(5, 10..100), Some(25..30));
        assert_eq!(ranges.find_gap(6, 10..100), Some(40..46));
        assert_eq!(ranges.find_gap(6, 10..45), None);
        ranges.remove(&(12..35)).unwrap();
        assert!(ranges.covers(&(10..12)) && ranges.covers(&(35..40)) && ranges.is_free(&(12..35)));
        ranges.insert(0..100).unwrap();
        assert!(ranges.covers(&(0..100)));
        ranges.remove(&(0..100)).unwrap();
        assert!(ranges.is_free(&(0..u64::MAX)));
    }
}

//! The order in which pairs of moves are judged, and the debates that serve as placebos.

use std::ops::Range;

use crate::data::SeededRng;

/// Divides the pairs into batches of two, because a placebo is the debate about a move of another pair. If the number
/// of pairs is odd, the last batch has three.
pub(super) fn batches(pairs: usize) -> Vec<Range<usize>> {
    let count = (pairs / 2).max(1);
    let end = |batch: usize| if batch + 1 == count { pairs } else { 2 * batch + 2 };
    (0..count).map(|it| 2 * it..end(it)).collect()
}

/// Returns the index of the move whose debate serves as the placebo of a pair. The move belongs to another pair in the
/// same batch. Both moves of the pair get the same debate, and a random draw decides whether it is about a sound or a
/// flawed move. The placebo therefore contains no information about which of the two moves is flawed.
pub(super) fn placebo_source(pair: usize, batch: &Range<usize>, rng: &mut SeededRng) -> usize {
    let other = batch.start + (pair - batch.start + 1) % batch.len();
    2 * other + usize::from(rng.next_u64().is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::{batches, placebo_source};
    use crate::data::SeededRng;

    #[test]
    fn batches_cover_all_pairs_and_contain_at_least_two_each() {
        assert_eq!(batches(2).first(), Some(&(0..2)));
        assert_eq!(batches(3).first(), Some(&(0..3)));
        assert_eq!(batches(6), [0..2, 2..4, 4..6]);
        assert_eq!(batches(7), [0..2, 2..4, 4..7]);
    }

    #[test]
    fn placebos_come_from_another_pair_and_balance_sound_and_flawed_moves() {
        let mut flawed_sources = [0; 2];
        for batch in batches(401) {
            for pair in batch.clone() {
                let mut rng = SeededRng::from_text(&format!("placebo {pair}"));
                let source = placebo_source(pair, &batch, &mut rng);
                assert!(source / 2 != pair && batch.contains(&(source / 2)), "{pair}: {source}");
                flawed_sources[pair % 2] += source % 2;
            }
        }
        // 100 flawed sources are expected for the even and for the odd pairs, with a standard deviation of 7.
        assert!(flawed_sources.iter().all(|it| (75..=125).contains(it)), "{flawed_sources:?}");
    }
}

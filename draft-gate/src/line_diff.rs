//! Compares two texts line by line with a limit on the work.
//!
//! 1. Lines that occur in only one of the texts are changed.
//! 2. Of the remaining lines, the common start and the common end of a region are unchanged.
//! 3. Lines that occur exactly once on both sides of a region divide it into smaller regions.
//! 4. A region that cannot be divided is compared with Myers' algorithm.
//!
//! Every step is counted. When the limit is reached, the remaining regions count as completely changed. A worker can
//! therefore construct texts whose differences are shown coarsely, but none that take long to compare.

use std::{collections::HashMap, ops::Range};

/// Differences between two texts.
#[derive(Debug)]
pub(crate) struct LineDiff {
    pub(crate) hunks: Vec<Hunk>,
    /// Whether the limit was reached, so that some unchanged lines are reported as changed.
    pub(crate) is_coarse: bool,
    /// Number of steps that the comparison took.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests check that the work is bounded"))]
    pub(crate) steps: u64,
}

/// Lines of the old text that are replaced by lines of the new text. Either range may be empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hunk {
    pub(crate) before: Range<u32>,
    pub(crate) after: Range<u32>,
}

/// Maximum number of steps of a comparison. Comparing two lines is one step, and so is visiting a line or a diagonal.
pub(crate) const MAX_STEPS: u64 = 4_000_000;

/// Compares two texts that are given as lists of lines.
pub(crate) fn compare_lines(before: &[&str], after: &[&str]) -> LineDiff {
    let mut ids = HashMap::new();
    let before_ids = number_lines(&mut ids, before);
    let n_before = ids.len();
    let after_ids = number_lines(&mut ids, after);
    let mut is_in_after = vec![false; ids.len()];
    after_ids.iter().for_each(|id| is_in_after[*id as usize] = true);
    let mut comparison = Comparison {
        before: Side::new(&before_ids, |id| is_in_after[id as usize]),
        after: Side::new(&after_ids, |id| (id as usize) < n_before),
        steps: 0,
        is_coarse: false,
    };
    comparison.run();
    LineDiff {
        hunks: hunks(&comparison.before.is_changed, &comparison.after.is_changed),
        is_coarse: comparison.is_coarse,
        steps: comparison.steps,
    }
}

/// Replaces each line with a number, so that equal lines have equal numbers.
fn number_lines<'a>(ids: &mut HashMap<&'a str, u32>, lines: &[&'a str]) -> Vec<u32> {
    let mut number = |line: &'a str| {
        let next = ids.len() as u32;
        *ids.entry(line).or_insert(next)
    };
    lines.iter().map(|line| number(line)).collect()
}

/// One of the two texts.
struct Side {
    /// The lines that also occur in the other text.
    ids: Vec<u32>,
    /// For each of these lines, its index in the text.
    lines: Vec<usize>,
    /// For each line of the text, whether it is changed.
    is_changed: Vec<bool>,
}

impl Side {
    fn new(all: &[u32], is_common: impl Fn(u32) -> bool) -> Self {
        let lines: Vec<usize> = (0..all.len()).filter(|at| is_common(all[*at])).collect();
        let ids = lines.iter().map(|at| all[*at]).collect();
        Self { ids, lines, is_changed: all.iter().map(|id| !is_common(*id)).collect() }
    }

    fn mark_changed(&mut self, range: Range<usize>) {
        for at in range {
            self.is_changed[self.lines[at]] = true;
        }
    }
}

/// A part of both texts, as ranges of [`Side::ids`].
#[derive(Clone)]
struct Region {
    before: Range<usize>,
    after: Range<usize>,
}

struct Comparison {
    before: Side,
    after: Side,
    steps: u64,
    is_coarse: bool,
}

impl Comparison {
    fn run(&mut self) {
        let mut regions =
            vec![Region { before: 0..self.before.ids.len(), after: 0..self.after.ids.len() }];
        while let Some(region) = regions.pop() {
            let region = self.trim(region);
            if region.before.is_empty() || region.after.is_empty() {
                self.mark_changed(region);
                continue;
            }
            self.steps += (region.before.len() + region.after.len()) as u64;
            if self.steps > MAX_STEPS {
                self.is_coarse = true;
                self.mark_changed(region);
                continue;
            }
            let inner = self.divide(&region);
            if inner.is_empty() {
                self.compare_undivided(region);
            } else {
                regions.extend(inner);
            }
        }
    }

    fn mark_changed(&mut self, region: Region) {
        self.before.mark_changed(region.before);
        self.after.mark_changed(region.after);
    }

    /// Removes the common start and the common end of a region.
    fn trim(&mut self, mut region: Region) -> Region {
        let (before, after) =
            (&self.before.ids[region.before.clone()], &self.after.ids[region.after.clone()]);
        let start = before.iter().zip(after).take_while(|(one, other)| one == other).count();
        let (before, after) = (&before[start..], &after[start..]);
        let pairs = before.iter().rev().zip(after.iter().rev());
        let end = pairs.take_while(|(one, other)| one == other).count();
        self.steps += (start + end) as u64;
        region.before = region.before.start + start..region.before.end - end;
        region.after = region.after.start + start..region.after.end - end;
        region
    }

    /// Returns the regions between the lines that occur exactly once on both sides. Returns no regions if there are no
    /// such lines.
    fn divide(&self, region: &Region) -> Vec<Region> {
        let anchors = ascending(&self.unique_lines(region));
        if anchors.is_empty() {
            return vec![];
        }
        let mut regions = vec![];
        let (mut before, mut after) = (region.before.start, region.after.start);
        for (one, other) in anchors {
            regions.push(Region { before: before..one, after: after..other });
            (before, after) = (one + 1, other + 1);
        }
        regions.push(Region { before: before..region.before.end, after: after..region.after.end });
        regions
    }

    /// Returns the positions of the lines that occur exactly once on both sides, in the order of the old text.
    fn unique_lines(&self, region: &Region) -> Vec<(usize, usize)> {
        /// For each side, the number of occurrences of a line and the position of the last one.
        #[derive(Default)]
        struct Occurrences([(u32, usize); 2]);
        let mut found: HashMap<u32, Occurrences> = HashMap::new();
        let sides =
            [(&self.before.ids, region.before.clone()), (&self.after.ids, region.after.clone())];
        for (side, (ids, range)) in sides.into_iter().enumerate() {
            for at in range {
                let seen = &mut found.entry(ids[at]).or_default().0[side];
                *seen = (seen.0 + 1, at);
            }
        }
        let once = |it: &Occurrences| match it.0 {
            [(1, one), (1, other)] => Some((one, other)),
            _ => None,
        };
        let mut pairs: Vec<(usize, usize)> = found.values().filter_map(once).collect();
        pairs.sort_unstable();
        pairs
    }

    /// Compares a region with Myers' algorithm.
    fn compare_undivided(&mut self, region: Region) {
        let (before, after) =
            (&self.before.ids[region.before.clone()], &self.after.ids[region.after.clone()]);
        let common = shortest_edit(before, after, MAX_STEPS, &mut self.steps);
        let Some(common) = common else {
            self.is_coarse = true;
            self.mark_changed(region);
            return;
        };
        let (first, other) = (region.before.start, region.after.start);
        self.mark_changed(region);
        for (one, two) in common {
            self.before.is_changed[self.before.lines[first + one]] = false;
            self.after.is_changed[self.after.lines[other + two]] = false;
        }
    }
}

/// Returns the longest subsequence whose second components are ascending. The first components must be ascending.
fn ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the index of the subsequence of this length that ends with the smallest component.
    let mut ends: Vec<usize> = vec![];
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|it| pairs[*it].1 < pair.1);
        previous.push(length.checked_sub(1).map(|it| ends[it]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut found = vec![];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        found.push(pairs[at]);
        next = previous[at];
    }
    found.reverse();
    found
}

/// Returns the positions of the lines that a shortest edit script keeps, by Myers' algorithm. Returns `None` if that
/// takes more than `max_steps` steps.
fn shortest_edit(
    before: &[u32],
    after: &[u32],
    max_steps: u64,
    steps: &mut u64,
) -> Option<Vec<(usize, usize)>> {
    // `rows[d][i]` is the furthest position in `before` that `d` edits reach on the diagonal `2 * i - d`.
    let mut rows: Vec<Vec<u32>> = vec![];
    loop {
        let edits = rows.len();
        *steps += edits as u64 + 1;
        let mut row = Vec::with_capacity(edits + 1);
        for index in 0..=edits {
            let mut x = rows.last().map_or(0, |it| reached_from(it, index).0);
            let mut y = x + edits - 2 * index;
            while x < before.len() && y < after.len() && before[x] == after[y] {
                (x, y) = (x + 1, y + 1);
                *steps += 1;
            }
            row.push(x as u32);
            if x == before.len() && y == after.len() {
                rows.push(row);
                return Some(kept_lines(&rows, before.len(), after.len()));
            }
        }
        if *steps > max_steps {
            return None;
        }
        rows.push(row);
    }
}

/// Selects the edit that leads from a diagonal in `row` to the diagonal `index` of the next row. Returns the position
/// in the old text after the edit, and the index in `row` of the diagonal before the edit.
fn reached_from(row: &[u32], index: usize) -> (usize, usize) {
    let is_insertion = index == 0 || (index < row.len() && row[index - 1] < row[index]);
    if is_insertion {
        (row[index] as usize, index)
    } else {
        (row[index - 1] as usize + 1, index - 1)
    }
}

/// Follows the rows of Myers' algorithm from the end of both texts to their start.
fn kept_lines(rows: &[Vec<u32>], n_before: usize, n_after: usize) -> Vec<(usize, usize)> {
    let mut kept = vec![];
    let (mut x, mut y) = (n_before, n_after);
    for edits in (0..rows.len()).rev() {
        // The diagonal is `x - y`, which is `2 * index - edits`.
        let index = (x + edits - y) / 2;
        let (start, from) = match edits.checked_sub(1) {
            Some(before) => {
                let (start, from) = reached_from(&rows[before], index);
                (start, Some(from))
            }
            None => (0, None),
        };
        while x > start {
            (x, y) = (x - 1, y - 1);
            kept.push((x, y));
        }
        match from {
            // An insertion keeps the index and moves only in the new text; a deletion moves only in the old text.
            Some(from) if from == index => y -= 1,
            Some(_) => x -= 1,
            None => {}
        }
    }
    kept
}

/// Groups changed lines into hunks. Unchanged lines correspond to each other in order.
fn hunks(is_removed: &[bool], is_added: &[bool]) -> Vec<Hunk> {
    let mut hunks = vec![];
    let (mut old, mut new) = (0, 0);
    while old < is_removed.len() || new < is_added.len() {
        let (old_start, new_start) = (old, new);
        old += is_removed[old..].iter().take_while(|it| **it).count();
        new += is_added[new..].iter().take_while(|it| **it).count();
        if (old, new) != (old_start, new_start) {
            let before = old_start as u32..old as u32;
            hunks.push(Hunk { before, after: new_start as u32..new as u32 });
        }
        let unchanged = is_removed[old..].iter().zip(&is_added[new..]);
        let n_unchanged = unchanged.take_while(|(one, other)| !**one && !**other).count();
        (old, new) = (old + n_unchanged, new + n_unchanged);
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(before: &[&str], after: &[&str]) -> (usize, usize, bool) {
        let diff = compare_lines(before, after);
        assert!(diff.steps < 2 * MAX_STEPS, "{}", diff.steps);
        let sum =
            |range: fn(&Hunk) -> &Range<u32>| diff.hunks.iter().map(|it| range(it).len()).sum();
        (sum(|it| &it.before), sum(|it| &it.after), diff.is_coarse)
    }

    /// In a file of equal lines, the number of steps for two changed lines is linear in the length of the file,
    /// wherever the two lines are.
    #[test]
    fn repeated_lines_are_compared_in_linear_time() {
        let old = vec!["same\n"; 520_000];
        for places in [[0, 519_999], [1_000, 300_000], [259_999, 260_001]] {
            let mut new = old.clone();
            new[places[0]] = "one\n";
            new[places[1]] = "two\n";
            assert_eq!(changed(&old, &new), (2, 2, false), "{places:?}");
            assert!(compare_lines(&old, &new).steps < 2_000_000);
            // The same change to lines that occur elsewhere in the file.
            let mut old = old.clone();
            old[7] = "one\n";
            old[400_007] = "two\n";
            let mut new = old.clone();
            new[places[0]] = "two\n";
            new[places[1]] = "one\n";
            let (removed, added, is_coarse) = changed(&old, &new);
            assert!(is_coarse || (removed <= 4 && added <= 4), "{removed} {added}");
        }
    }

    /// Texts that are expensive to compare are compared coarsely instead.
    #[test]
    fn work_is_limited_for_every_kind_of_text() {
        let mut state = 1_u32;
        let mut random = |of: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % of
        };
        let words = ["a\n", "b\n", "c\n", "d\n"];
        let mut text = |length: usize, of: u32| -> Vec<&str> {
            (0..length).map(|_| words[random(of) as usize]).collect()
        };
        for of in [2, 3, 4] {
            let (one, other) = (text(200_000, of), text(200_000, of));
            let (removed, added, is_coarse) = changed(&one, &other);
            assert!(is_coarse && removed > 0 && added > 0);
        }
        let numbers: Vec<String> = (0..100_000).map(|it| format!("{it}\n")).collect();
        let up: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let down: Vec<&str> = up.iter().rev().copied().collect();
        changed(&up, &down);
        let rotated: Vec<&str> = up[50_000..].iter().chain(&up[..50_000]).copied().collect();
        assert_eq!(changed(&up, &rotated), (50_000, 50_000, false));
        // Unique lines that appear only after the region was divided many times.
        let nested: Vec<&str> = (0..300_000).map(|it| up[it % 1_000 + it / 1_000]).collect();
        changed(&nested, &up);
    }

    #[test]
    fn small_changes_are_minimal() {
        assert_eq!(changed(&["a", "b", "c"], &["a", "x", "b", "y"]), (1, 2, false));
        assert_eq!(changed(&["a", "a", "b", "a"], &["a", "b", "b", "a"]), (1, 1, false));
        assert_eq!(changed(&[], &["a"]), (0, 1, false));
        assert_eq!(changed(&["a", "b"], &["b", "a"]), (1, 1, false));
    }
}

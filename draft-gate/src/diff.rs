//! Computes line differences between two texts, and three-way merges.

use std::{collections::HashSet, fmt::Write, ops::Range};

use crate::line_diff::{Hunk, compare_lines};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileDiff {
    /// Unified diff as printed by `diff -u`, without file names.
    pub unified: String,
    /// Added lines without their newlines, each with its line number in the new text.
    pub added: Vec<(u32, String)>,
    pub removed: u32,
    pub old_lines: u32,
    /// Whether only line endings differ.
    pub is_line_ends_only: bool,
    pub precision: DiffPrecision,
}

/// How precisely a diff describes a change. Comparing texts takes a limited number of steps and a limited amount of
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffPrecision {
    #[default]
    Exact,
    /// The texts are too different for the limit on steps. Some unchanged lines are shown as removed and added.
    Coarse,
    /// A text has too many lines. The diff is empty.
    Omitted,
}

/// Maximum number of lines of a text that is compared.
pub(crate) const MAX_LINES: usize = 1_000_000;

impl FileDiff {
    /// Compares two texts. Time and memory are linear in the length of the texts, because the number of
    /// comparison steps is limited.
    pub fn new(old: &str, new: &str) -> Self {
        if line_count(old).max(line_count(new)) > MAX_LINES {
            return Self::omitted(old);
        }
        let (before, after) = (lines(old), lines(new));
        let diff = compare_lines(&before, &after);
        let numbered = |at: u32| (at + 1, without_newline(after[at as usize]).to_owned());
        Self {
            unified: unified(&diff.hunks, &before, &after),
            added: diff.hunks.iter().flat_map(|it| it.after.clone()).map(numbered).collect(),
            removed: diff.hunks.iter().map(|it| it.before.len() as u32).sum(),
            old_lines: before.len() as u32,
            is_line_ends_only: old != new && old.replace("\r\n", "\n") == new.replace("\r\n", "\n"),
            precision: if diff.is_coarse { DiffPrecision::Coarse } else { DiffPrecision::Exact },
        }
    }

    /// Returns the diff of a text that is not compared. All its lines count as removed.
    fn omitted(old: &str) -> Self {
        let old_lines = u32::try_from(line_count(old)).unwrap_or(u32::MAX);
        Self { removed: old_lines, old_lines, precision: DiffPrecision::Omitted, ..Self::default() }
    }

    /// Returns the added lines that do not occur in the old text. They differ from `added` only if the diff is coarse.
    pub(crate) fn new_lines(&self, old: &str) -> Vec<(u32, String)> {
        let old: HashSet<&str> = old.split('\n').collect();
        self.added.iter().filter(|(_, line)| !old.contains(line.as_str())).cloned().collect()
    }

    /// Returns the number of added and removed lines.
    pub fn changed(&self) -> u32 {
        u32::try_from(self.added.len()).unwrap_or(u32::MAX).saturating_add(self.removed)
    }

    /// Returns the share of lines that both texts have in common, as a number from 0 to 1.
    pub(crate) fn similarity(&self) -> f64 {
        let added = u32::try_from(self.added.len()).unwrap_or(u32::MAX);
        let common = self.old_lines - self.removed;
        let all = self.old_lines.saturating_add(common).saturating_add(added);
        f64::from(common.saturating_mul(2)) / f64::from(all.max(1))
    }

    /// Returns the share of old lines that were removed, as a number from 0 to 1.
    pub(crate) fn deletion_ratio(&self) -> f64 {
        f64::from(self.removed) / f64::from(self.old_lines.max(1))
    }
}

/// Counts the lines in a text, including an unterminated last line.
pub(crate) fn line_count(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

/// Performs a three-way merge. Returns `None` if the changes conflict, that is, if they overlap or touch, or if the
/// texts are too large or too different to be compared exactly.
pub(crate) fn merge(base: &str, ours: &str, theirs: &str) -> Option<String> {
    if [base, ours, theirs].iter().any(|it| line_count(it) > MAX_LINES) {
        return None;
    }
    let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
    let (our_diff, their_diff) = (compare_lines(&base, &ours), compare_lines(&base, &theirs));
    if our_diff.is_coarse || their_diff.is_coarse {
        return None;
    }
    let of = |hunks: Vec<Hunk>, text: &[&str]| -> Vec<(Range<u32>, String)> {
        let new_text = |it: &Hunk| text[it.after.start as usize..it.after.end as usize].concat();
        hunks.into_iter().map(|it| (it.before.clone(), new_text(&it))).collect()
    };
    let mut changes = of(our_diff.hunks, &ours);
    changes.extend(of(their_diff.hunks, &theirs));
    changes.sort_by_key(|(range, _)| (range.start, range.end));
    // Both sides may have made the same change.
    changes.dedup();
    let mut merged = String::new();
    let mut at = 0;
    for (index, (range, text)) in changes.iter().enumerate() {
        if index > 0 && range.start <= changes[index - 1].0.end {
            return None;
        }
        merged.push_str(&base[at..range.start as usize].concat());
        merged.push_str(text);
        at = range.end as usize;
    }
    merged.push_str(&base[at..].concat());
    Some(merged)
}

/// Splits a text into lines, including their newlines.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Number of context lines around a change.
const CONTEXT: u32 = 3;

/// Formats the hunks as a unified diff.
fn unified(hunks: &[Hunk], before: &[&str], after: &[&str]) -> String {
    let mut text = String::new();
    // Hunks with overlapping context are merged into one.
    for group in hunks.chunk_by(|one, next| next.before.start - one.before.end <= 2 * CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let lead = CONTEXT.min(first.before.start);
        let tail = CONTEXT.min(before.len() as u32 - last.before.end);
        let old = first.before.start - lead..last.before.end + tail;
        let new = first.after.start - lead..last.after.end + tail;
        let _ = writeln!(text, "@@ -{} +{} @@", hunk_range(&old), hunk_range(&new));
        let mut at = old.start;
        for hunk in group {
            print_lines(&mut text, ' ', before, at..hunk.before.start);
            print_lines(&mut text, '-', before, hunk.before.clone());
            print_lines(&mut text, '+', after, hunk.after.clone());
            at = hunk.before.end;
        }
        print_lines(&mut text, ' ', before, at..old.end);
    }
    text
}

/// Formats the range in a hunk header. By convention, an empty range starts at the line before it.
fn hunk_range(range: &Range<u32>) -> String {
    let start = range.start + u32::from(!range.is_empty());
    format!("{start},{}", range.len())
}

fn print_lines(text: &mut String, mark: char, lines: &[&str], range: Range<u32>) {
    for line in &lines[range.start as usize..range.end as usize] {
        text.push(mark);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn without_newline(line: &str) -> &str {
    line.strip_suffix('\n').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_have_their_line_numbers() {
        let diff = FileDiff::new("a\nb\nc\n", "a\nx\nb\ny\n");
        assert_eq!(diff.added, [(2, "x".to_owned()), (4, "y".to_owned())]);
        assert_eq!((diff.removed, diff.old_lines, diff.changed()), (1, 3, 3));
        assert!((diff.similarity() - 4.0 / 7.0).abs() < 1e-9);
        assert!(diff.unified.contains("+x\n") && diff.unified.contains("-c\n"), "{}", diff.unified);
    }

    #[test]
    fn unified_diffs_match_the_format_of_diff() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15";
        let new = "1\n2\n3\nx\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\ny";
        let expect = "@@ -1,6 +1,7 @@\n 1\n 2\n 3\n+x\n 4\n 5\n 6\n\
                      @@ -12,4 +13,4 @@\n 12\n 13\n 14\n-15\n\\ No newline at end of file\n\
                      +y\n\\ No newline at end of file\n";
        assert_eq!(FileDiff::new(old, new).unified, expect);
        assert_eq!(FileDiff::new("", "a\n").unified, "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(FileDiff::new("a\n", "").unified, "@@ -1,1 +0,0 @@\n-a\n");
    }

    proptest::proptest! {
        #[test]
        fn applying_the_diff_yields_the_new_text(old in "[ab\r\n]{0,40}", new in "[ab\r\n]{0,40}") {
            check_round_trip(&old, &new);
        }
    }

    #[track_caller]
    fn check_round_trip(old: &str, new: &str) {
        let patch = format!("--- a\n+++ b\n{}", FileDiff::new(old, new).unified);
        let patch = diffy::Patch::from_str(&patch).unwrap();
        assert_eq!(diffy::apply(old, &patch).unwrap(), new);
    }

    #[test]
    fn changed_line_endings_are_detected() {
        let diff = FileDiff::new("a\nb\n", "a\r\nb\r\n");
        assert!(diff.is_line_ends_only);
        assert_eq!(diff.removed, 2);
        assert!(!FileDiff::new("a\n", "b\r\n").is_line_ends_only);
    }

    #[test]
    fn disjoint_changes_merge_and_overlapping_ones_do_not() {
        let base = "1\n2\n3\n4\n5\n6\n7\n";
        let ours = base.replace('1', "one");
        let theirs = base.replace('7', "seven");
        assert_eq!(merge(base, &ours, &theirs).unwrap(), "one\n2\n3\n4\n5\n6\nseven\n");
        assert_eq!(merge(base, &base.replace('4', "a"), &base.replace('4', "b")), None);
        assert_eq!(merge(base, &base.replace('4', "a"), &base.replace('5', "b")), None);
        let same = base.replace('4', "a");
        assert_eq!(merge(base, &same, &same).unwrap(), same);
        assert_eq!(merge(base, &format!("0\n{base}"), &base.replace('1', "one")), None);
    }

    #[test]
    fn texts_without_common_lines_are_compared_exactly() {
        let numbers =
            |from: u32| (from..from + 100_000).map(|it| format!("{it}\n")).collect::<String>();
        let diff = FileDiff::new(&numbers(0), &numbers(100_000));
        assert_eq!((diff.removed, diff.precision), (100_000, DiffPrecision::Exact));
    }

    #[test]
    fn texts_with_too_many_lines_are_not_compared() {
        let (old, new) = ("\n".repeat(MAX_LINES), "\n".repeat(MAX_LINES + 1));
        assert_eq!(FileDiff::new(&old, &new[1..]).precision, DiffPrecision::Exact);
        let diff = FileDiff::new(&old, &new);
        assert_eq!((diff.precision, diff.removed as usize), (DiffPrecision::Omitted, MAX_LINES));
        assert!(diff.added.is_empty() && diff.unified.is_empty());
        assert_eq!(merge(&old, &new, &old), None);
    }

    /// Coarse diffs show unchanged lines as added, but these lines are not new.
    #[test]
    fn new_lines_of_coarse_diffs_exclude_lines_of_the_old_text() {
        let text = |seed: u32| -> String {
            let bits = (0..200_000_u32).map(|it| (it ^ seed).wrapping_mul(2_654_435_761) >> 29);
            bits.map(|it| if it > 3 { "a\n" } else { "b\n" }).collect()
        };
        let (old, new) = (text(1), text(77_777) + "c\n");
        let diff = FileDiff::new(&old, &new);
        assert_eq!(diff.precision, DiffPrecision::Coarse);
        assert_eq!(diff.new_lines(&old), [(200_001, "c".to_owned())]);
        assert_eq!(merge(&old, &new, &old), None);
    }
}

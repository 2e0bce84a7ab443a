//! Computes line differences between two texts.

use std::{fmt::Write, ops::Range};

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

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
}

impl FileDiff {
    /// Compares two texts in time and memory that are linear in their length.
    pub fn new(old: &str, new: &str) -> Self {
        let input = InternedInput::new(old, new);
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let hunks: Vec<Hunk> = diff.hunks().collect();
        let lines =
            |tokens: &[imara_diff::Token]| tokens.iter().map(|it| input.interner[*it]).collect();
        let (before, after): (Vec<&str>, Vec<&str>) = (lines(&input.before), lines(&input.after));
        let numbered = |at: u32| (at + 1, without_newline(after[at as usize]).to_owned());
        Self {
            unified: unified(&hunks, &before, &after),
            added: hunks.iter().flat_map(|it| it.after.clone()).map(numbered).collect(),
            removed: diff.count_removals(),
            old_lines: u32::try_from(before.len()).unwrap_or(u32::MAX),
            is_line_ends_only: old != new && old.replace("\r\n", "\n") == new.replace("\r\n", "\n"),
        }
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

/// Performs a three-way merge. Returns `None` if the changes conflict or a text is too long.
pub(crate) fn merge(base: &str, ours: &str, theirs: &str) -> Option<String> {
    // The length is limited because merging takes quadratic time in the worst case.
    let is_short = [base, ours, theirs].iter().all(|it| line_count(it) <= MAX_MERGED_LINES);
    is_short.then(|| diffy::merge(base, ours, theirs).ok()).flatten()
}

const MAX_MERGED_LINES: usize = 5_000;

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
    }

    /// Texts without common lines must be compared quickly; Myers' algorithm would take minutes here.
    #[test]
    fn texts_without_common_lines_are_compared_quickly() {
        let numbers =
            |from: u32| (from..from + 100_000).map(|it| format!("{it}\n")).collect::<String>();
        assert_eq!(FileDiff::new(&numbers(0), &numbers(100_000)).removed, 100_000);
    }
}

//! Edit distance, for "did you mean" suggestions.

/// Returns the Levenshtein distance: the number of characters to insert, delete or replace to turn `a` into `b`.
pub(super) fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (n, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = n + 1;
        for (m, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[m + 1];
            row[m + 1] = replaced.min(diagonal + 1).min(row[m] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

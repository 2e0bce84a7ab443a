//! A document in pieces, and findings from pieces as those of a whole.

use super::{FindingsDraft, TensionDraft, check::EXPECTED};
use crate::markdown;

/// Cuts a document into pieces of so many lines. A piece that begins within a section or a table has its heading and
/// the table's header before it, so that it can be read by itself.
///
/// ```
/// use consulting_graph::finding::pieces;
///
/// let cut = pieces("# Sales\n| Year | Sales |\n|---|---|\n| 2024 | $5m |\n| 2025 | $6m |\n", 4);
/// assert_eq!(cut[1], "# Sales\n| Year | Sales |\n|---|---|\n| 2025 | $6m |\n");
/// ```
pub fn pieces(document: &str, lines: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let (mut heading, mut header): (Option<&str>, Vec<&str>) = (None, Vec::new());
    for (idx, line) in document.lines().enumerate() {
        let is_heading = markdown::heading(line).is_some();
        let is_row = line.trim_start().starts_with('|');
        if !is_row {
            header.clear();
        }
        if idx % lines.max(1) == 0 {
            let title = heading.filter(|_| !is_heading);
            let before = title.into_iter().chain(header.iter().copied());
            pieces.push(before.map(|it| format!("{it}\n")).collect());
        }
        if is_heading {
            heading = Some(line);
        }
        // The names of the columns, and the rule below them.
        if is_row && header.len() < 2 {
            header.push(line);
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
            piece.push('\n');
        }
    }
    pieces.retain(|it| !it.trim().is_empty());
    pieces
}

/// One draft of the drafts from several pieces: the weightiest findings first, and no more than an inference should
/// have. Tensions stay between findings that do.
pub fn join(drafts: Vec<FindingsDraft>) -> FindingsDraft {
    let mut all = Vec::new();
    let mut tensions = Vec::new();
    for (piece, draft) in drafts.into_iter().enumerate() {
        all.extend((1_u8..).zip(draft.findings).map(|(number, it)| (piece, number, it)));
        tensions.extend(draft.tensions.into_iter().map(|it| (piece, it)));
    }
    all.sort_by_key(|it| std::cmp::Reverse(it.2.strength));
    all.truncate(*EXPECTED.end());
    let place = |piece: usize, number: u8| {
        let at = all.iter().position(|it| (it.0, it.1) == (piece, number))?;
        u8::try_from(at + 1).ok()
    };
    let moved = |(piece, it): (usize, TensionDraft)| {
        let between =
            it.between.iter().map(|number| place(piece, *number)).collect::<Option<_>>()?;
        Some(TensionDraft { between, text: it.text })
    };
    let tensions = tensions.into_iter().filter_map(moved).collect();
    FindingsDraft { tensions, findings: all.into_iter().map(|it| it.2).collect() }
}

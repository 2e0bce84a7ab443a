//! Source documents of the offline board: the data as given, with a short introduction.

use minijinja::context;

use super::writer::Writer;
use crate::data::Subject;

/// Inserts an introduction before the first section of the data.
pub(super) fn write(subject: Subject, data: &str, writer: &Writer) -> String {
    let (intro, hint) = match subject {
        Subject::Financial => ("financial_intro", "financial_hint"),
        Subject::Trend => ("news_intro", "news_hint"),
    };
    let [intro, hint] = [intro, hint].map(|it| writer.phrase(it, &context! {}));
    let (head, sections) = data.split_once("\n\n## ").unwrap_or((data, ""));
    format!("{head}\n\n{intro} {hint} (Compiled by a scripted model.)\n\n## {sections}")
}

//! Parts that the financial document and the news document have in common.

use super::super::company::{Company, Document, Source, Subject};

const NOT_AVAILABLE: &str = "Not available from this source.";

pub(super) fn header(company: &Company, title: &str) -> String {
    let mut text = format!("# {title}: {} ({})\n\n", company.name, company.ticker);
    text.push_str(match company.source {
        Source::Synthetic => {
            "> **SYNTHETIC DATA.** This company and all figures below are fictional; they do not describe any real company.\n\n"
        }
        Source::Snapshot | Source::Edgar => "> Figures as filed with the SEC; ratios are computed from them.\n\n",
        Source::Folder => "> Figures from the user's own files; ratios are computed from them.\n\n",
    });
    text.push_str(&format!("As of {}.", company.as_of));
    if let Some(sector) = &company.sector {
        text.push_str(&format!(" Sector: {sector}."));
    }
    text.push('\n');
    for warning in &company.warnings {
        text.push_str(&format!("Note: {warning}.\n"));
    }
    text
}

pub(super) fn push_section(text: &mut String, name: &str, body: &str) {
    let body = body.trim_end();
    let body = if body.is_empty() { NOT_AVAILABLE } else { body };
    text.push_str(&format!("\n## {name}\n\n{body}\n"));
}

/// Renders the user's documents about a subject. Each line is prefixed with the file name and the line number, so that
/// quotations can refer to it.
pub(super) fn documents(company: &Company, about: Subject) -> String {
    let of_subject = company.documents.iter().filter(|it| it.about == about);
    of_subject.map(numbered_lines).collect()
}

fn numbered_lines(document: &Document) -> String {
    let lines = (1..).zip(document.text.lines()).filter(|(_, text)| !text.trim().is_empty());
    let body: String = lines
        .map(|(line, text)| format!("{}:{line}: {}\n", document.name, text.trim_end()))
        .collect();
    format!("\n## Document {}\n\n{body}", document.name)
}

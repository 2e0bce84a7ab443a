//! Renders a company as the two source documents that the models read.
//!
//! All sections are always present. A section without data says that the data is not available, so that models do not
//! make it up.

mod financial;
mod news;
mod table;

pub use financial::financial;
pub use news::news;

use super::{Company, Document, Origin, Source, Subject};

/// The sections of the financial document, in order.
pub const FINANCIAL_SECTIONS: [&str; 11] = [
    "Quarterly Revenue",
    "Revenue by Segment",
    "Revenue by Geography",
    "Income Statement",
    "Balance Sheet",
    "Cash Flow",
    "Stock Price",
    "Key Ratios",
    "Key Business Metrics",
    "Management Guidance",
    "Recent Corporate Events",
];

/// The sections of the news document, in order.
pub const NEWS_SECTIONS: [&str; 5] = [
    "Recent News Coverage",
    "Social Sentiment",
    "Prediction Market Signals",
    "Competitor Activity",
    "Analyst Ratings",
];

const NOT_AVAILABLE: &str = "Not available from this source.";

/// Returns the name and the origin of every statement value, for the appendix of a report.
///
/// For a synthetic company, returns a single entry, because all its values have the same origin.
pub fn provenance(company: &Company) -> Vec<(String, String)> {
    if company.source == Source::Synthetic {
        return vec![("all".to_owned(), Origin::Synthetic.to_string())];
    }
    let statements = company.annuals.iter().chain(&company.quarters);
    let lines = statements.flat_map(|statement| {
        statement.facts.iter().map(move |(item, fact)| {
            (format!("{item}, {}", statement.period), fact.origin.to_string())
        })
    });
    lines.collect()
}

fn header(company: &Company, title: &str) -> String {
    let mut text = format!("# {title}: {} ({})\n\n", company.name, company.ticker);
    text.push_str(match company.source {
        Source::Synthetic => {
            "> **SYNTHETIC DATA.** This company and all figures below are fictional; they do not describe any real company.\n\n"
        }
        Source::Edgar => "> Figures as filed with the SEC; ratios are computed from them.\n\n",
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

fn push_section(text: &mut String, name: &str, body: &str) {
    let body = body.trim_end();
    let body = if body.is_empty() { NOT_AVAILABLE } else { body };
    text.push_str(&format!("\n## {name}\n\n{body}\n"));
}

/// Renders the user's documents about a subject. Each line is prefixed with the file name and the line number, so that
/// quotations can refer to it.
fn documents(company: &Company, about: Subject) -> String {
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

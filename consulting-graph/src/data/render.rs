//! Renders a company as the two source documents that the models read.
//!
//! All sections are always present. A section without data says that the data is not available, so that models do not
//! make it up.

mod financial;
mod layout;
mod news;
mod table;
mod trends;

pub(crate) use financial::financial;
pub(crate) use news::news;

use super::{
    company::{Company, Source},
    origin::Origin,
};

/// Returns the name and the origin of every statement value, for the appendix of a report.
///
/// For a synthetic company, returns a single entry, because all its values have the same origin.
pub(crate) fn provenance(company: &Company) -> Vec<(String, String)> {
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

//! A report as blocks, which markdown and HTML show each in its way.
//!
//! All texts in it are plain: whatever a model wrote is made harmless where it is shown, in one place for each form.

use super::chart::Chart;

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// A heading; 1 is the report's title.
    Heading(u8, String),
    /// Something a reader must not miss.
    Notice(String),
    /// A paragraph.
    Text(String),
    /// A list.
    List(Vec<String>),
    /// A table.
    Table { header: Vec<String>, lines: Vec<Vec<String>> },
    /// A picture; what it shows also stands in a table.
    Chart(Chart),
    /// A long text as somebody wrote it.
    Quote(String),
    /// Parts that are not shown at first.
    Folded { title: String, blocks: Vec<Self> },
}

impl Block {
    pub(super) fn table(header: &[&str], lines: Vec<Vec<String>>) -> Self {
        Self::Table { header: header.iter().map(|it| (*it).to_owned()).collect(), lines }
    }
}

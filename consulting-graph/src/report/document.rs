//! Represents a report as a list of blocks, which can be rendered as Markdown or HTML.
//!
//! All texts are plain text. Each renderer escapes them, so that model output cannot inject markup.

use super::chart::Chart;

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// A heading; level 1 is the title of the report.
    Heading(u8, String),
    Notice(String),
    Text(String),
    List(Vec<String>),
    Table {
        header: Vec<String>,
        lines: Vec<Vec<String>>,
    },
    /// A chart. Another block of the report shows the same data as a table, so renderers may omit the chart.
    Chart(Chart),
    /// A long text, quoted verbatim.
    Quote(String),
    /// Blocks that are collapsed until the reader expands them.
    Collapsed {
        title: String,
        blocks: Vec<Self>,
    },
}

impl Block {
    pub(super) fn table(header: &[&str], lines: Vec<Vec<String>>) -> Self {
        Self::Table { header: header.iter().map(|it| (*it).to_owned()).collect(), lines }
    }
}

/// Returns the text of a table cell that has no value.
pub(super) fn dash() -> String {
    "-".to_owned()
}

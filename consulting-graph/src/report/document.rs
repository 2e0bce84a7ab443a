//! Represents a report as a list of blocks, which can be rendered as Markdown or HTML.
//!
//! All texts are plain text. Each renderer escapes them, so that model output cannot inject markup. Citations of
//! findings in texts become links on the page.

use super::{bar_chart::BarChart, figures::FigureChart, interval_chart::IntervalChart};

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// A heading; level 1 is the title of the report.
    Heading(u8, String),
    /// A heading that links can refer to by its id.
    Target(u8, String, String),
    /// Links to all headings of level 2.
    Contents,
    Notice(String),
    Text(String),
    /// An explanation of the columns or marks of the next block.
    Legend(String),
    List(Vec<String>),
    /// Summaries that are shown side by side if there is room.
    Cards(Vec<Card>),
    Table(Table),
    /// A bar chart. Another block of the report shows the same data as a table, so renderers may omit the chart.
    Bars(BarChart),
    Figure(FigureChart),
    /// A chart of intervals. Another block of the report shows the same data as a table, so renderers may omit the
    /// chart.
    Intervals(IntervalChart),
    /// A long text, quoted verbatim.
    Quote(String),
    /// Blocks that are collapsed until the reader expands them.
    Collapsed {
        title: String,
        blocks: Vec<Self>,
    },
    /// Blocks that only the page shows. The directory of the run has the same content in other files.
    PageOnly(Vec<Self>),
    /// Blocks that only the Markdown report shows.
    MarkdownOnly(Vec<Self>),
}

/// A summary of a recommended move.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Card {
    pub(crate) title: Link,
    pub(crate) subtitle: String,
    /// Labels and texts.
    pub(crate) rows: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A table row. Links can refer to it if it has an id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: Option<String>,
    pub(crate) cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Links(Vec<Link>),
}

/// A text that links to another part of the report or to a filing. Markdown shows only the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    pub(crate) text: String,
    /// Address: `#` and an id in the report, or the URL of a filing.
    pub(crate) address: String,
}

impl Block {
    pub(crate) fn table(header: &[&str], lines: Vec<Vec<String>>) -> Self {
        let row = |cells: Vec<String>| Row::new(cells.into_iter().map(Cell::Text).collect());
        Self::rows(header, lines.into_iter().map(row).collect())
    }

    pub(crate) fn rows(header: &[&str], rows: Vec<Row>) -> Self {
        Self::Table(Table { header: header.iter().map(|it| (*it).to_owned()).collect(), rows })
    }
}

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self { id: None, cells }
    }

    pub(crate) fn with_id(id: impl Into<String>, cells: Vec<Cell>) -> Self {
        Self { id: Some(id.into()), cells }
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a cell with links to parts of the report whose ids are their texts. An empty cell has a dash.
    pub(crate) fn references(ids: impl IntoIterator<Item = String>) -> Self {
        let links: Vec<Link> = ids.into_iter().map(|it| Link::to(&it, &it)).collect();
        if links.is_empty() { Self::Text(dash()) } else { Self::Links(links) }
    }
}

impl Link {
    /// Creates a link to a part of the report.
    pub(crate) fn to(text: &str, id: &str) -> Self {
        Self { text: text.to_owned(), address: format!("#{id}") }
    }
}

/// Returns the text of a table cell that has no value.
pub(crate) fn dash() -> String {
    "-".to_owned()
}

//! Renders a report as Markdown.

use app_support::terminal::strip_invisible;

use super::{
    document::{Block, Card, Cell, Row, Table},
    figures::FigureChart,
};
use crate::markdown::escape_line_starts;

/// Maximum number of rows of a table. The page shows all rows.
const MAX_ROWS: usize = 60;

pub(crate) fn render(blocks: &[Block]) -> String {
    let texts: Vec<String> = blocks.iter().map(block).filter(|it| !it.is_empty()).collect();
    texts.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, title) | Block::Target(level, title, _) => {
            format!("{} {}\n", "#".repeat(usize::from(*level)), escape_line(title))
        }
        Block::Notice(text) => format!("> **{}**\n", escape_line(text)),
        // A single line, because further paragraphs would look like a part of the report.
        Block::Text(text) | Block::Legend(text) => format!("{}\n", escape_start(text)),
        Block::List(points) => {
            points.iter().map(|it| format!("- {}\n", escape_start(it))).collect()
        }
        Block::Cards(cards) => cards.iter().map(card).collect::<Vec<_>>().join("\n"),
        Block::Table(it) => table(it),
        Block::Figure(chart) => figure(chart),
        // Omitted, because another block of the report shows the same data as a table, or because the page has it.
        Block::Bars(_) | Block::Intervals(_) | Block::Contents | Block::PageOnly(_) => {
            String::new()
        }
        Block::MarkdownOnly(blocks) => render(blocks),
        Block::Quote(text) => {
            let text = escape_line_starts(&escape(text));
            text.lines().map(|it| format!("> {it}\n")).collect()
        }
        Block::Collapsed { title, blocks } => {
            format!(
                "<details><summary>{}</summary>\n\n{}\n</details>\n",
                escape_line(title),
                render(blocks)
            )
        }
    }
}

fn card(card: &Card) -> String {
    let rows = card.rows.iter();
    let rows = rows.map(|(label, text)| format!("- **{label}:** {}\n", escape_line(text)));
    format!(
        "### {}\n\n{}\n\n{}",
        escape_line(&card.title.text),
        escape_start(&card.subtitle),
        rows.collect::<String>()
    )
}

/// Renders a chart as a table with one row for each period.
fn figure(chart: &FigureChart) -> String {
    let header =
        ["Period".to_owned()].into_iter().chain(chart.series.iter().map(|it| it.name.clone()));
    let row = |(idx, period): (usize, &String)| {
        let value = |values: &[Option<f64>]| values.get(idx).copied().flatten();
        let cells = chart
            .series
            .iter()
            .map(|it| value(&it.values).map_or_else(|| "-".to_owned(), |it| chart.format(it)));
        let caption = chart.captions.get(idx).filter(|it| !it.is_empty());
        let period = match caption {
            Some(caption) => format!("{period} ({caption})"),
            None => period.clone(),
        };
        Row::new([period].into_iter().chain(cells).map(Cell::Text).collect())
    };
    let rows = chart.periods.iter().enumerate().map(row).collect();
    format!(
        "{}:\n\n{}",
        escape_start(&chart.title),
        table(&Table { header: header.collect(), rows })
    )
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    // Not `\|`: if the text has a backslash before the pipe, that backslash would escape the inserted one, and the pipe
    // would end the cell.
    let escape_cell = |it: &str| escape_line(it).replace('|', "&#124;");
    let cell = |it: &Cell| match it {
        Cell::Text(text) => escape_cell(text),
        Cell::Links(links) => {
            let texts: Vec<&str> = links.iter().map(|it| it.text.as_str()).collect();
            escape_cell(&texts.join("; "))
        }
    };
    let mut text = line(table.header.iter().map(|it| escape_cell(it)).collect());
    text += &line(vec!["---".to_owned(); table.header.len()]);
    let shown = table.rows.iter().take(MAX_ROWS);
    text.extend(shown.map(|it| line(it.cells.iter().map(cell).collect())));
    let left_out = table.rows.len().saturating_sub(MAX_ROWS);
    if left_out > 0 {
        let rows = if left_out == 1 { "row is" } else { "rows are" };
        text += &format!("\n{left_out} more {rows} in report.html.\n");
    }
    text
}

/// Escapes a text that starts a line or a list item.
fn escape_start(text: &str) -> String {
    escape_line_starts(&escape_line(text))
}

fn escape_line(text: &str) -> String {
    escape(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes HTML, links and images, so that a viewer does not load anything that a model refers to. Links can be inline
/// links, reference links or bare URLs.
fn escape(text: &str) -> String {
    strip_invisible(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace("](", "]\\(")
        .replace("][", "]\\[")
        .replace("]:", "]\\:")
        .replace("://", ":\\//")
        .replace("www.", "www\\.")
}

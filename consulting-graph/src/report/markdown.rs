//! Renders a report as Markdown.

use app_support::terminal::strip_invisible;

use super::document::Block;
use crate::markdown::escape_line_starts;

pub(super) fn render(blocks: &[Block]) -> String {
    let texts: Vec<String> = blocks.iter().map(block).filter(|it| !it.is_empty()).collect();
    texts.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, title) => {
            format!("{} {}\n", "#".repeat(usize::from(*level)), escape_line(title))
        }
        Block::Notice(text) => format!("> **{}**\n", escape_line(text)),
        Block::Text(text) => format!("{}\n", escape_line_starts(&escape(text))),
        Block::List(points) => points.iter().map(|it| format!("- {}\n", escape_line(it))).collect(),
        Block::Table { header, lines } => table(header, lines),
        // Omitted, because another block of the report shows the same data as a table.
        Block::Chart(_) => String::new(),
        Block::Quote(text) => escape(text).lines().map(|it| format!("> {it}\n")).collect(),
        Block::Collapsed { title, blocks } => {
            format!(
                "<details><summary>{}</summary>\n\n{}\n</details>\n",
                escape_line(title),
                render(blocks)
            )
        }
    }
}

fn table(header: &[String], lines: &[Vec<String>]) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().map(|it| escape_line(it).replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = vec!["---".to_owned(); header.len()];
    let mut text = row(header) + &row(&rule);
    text.extend(lines.iter().map(|it| row(it)));
    text
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

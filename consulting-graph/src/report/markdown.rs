//! A report in markdown.

use super::document::Block;
use crate::fence;

pub(super) fn render(blocks: &[Block]) -> String {
    let texts: Vec<String> = blocks.iter().map(block).filter(|it| !it.is_empty()).collect();
    texts.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, title) => {
            format!("{} {}\n", "#".repeat(usize::from(*level)), line(title))
        }
        Block::Notice(text) => format!("> **{}**\n", line(text)),
        Block::Text(text) => format!("{}\n", safe(text)),
        Block::List(points) => points.iter().map(|it| format!("- {}\n", line(it))).collect(),
        Block::Table { header, lines } => table(header, lines),
        // The numbers stand in a table.
        Block::Chart(_) => String::new(),
        Block::Quote(text) => safe(text).lines().map(|it| format!("> {it}\n")).collect(),
        Block::Folded { title, blocks } => {
            format!(
                "<details><summary>{}</summary>\n\n{}\n</details>\n",
                line(title),
                render(blocks)
            )
        }
    }
}

fn table(header: &[String], lines: &[Vec<String>]) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|it| line(it).replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = vec!["---".to_owned(); header.len()];
    let mut text = row(header) + &row(&rule);
    text.extend(lines.iter().map(|it| row(it)));
    text
}

fn line(text: &str) -> String {
    safe(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text in which no HTML, no link and no picture is left: a viewer must load nothing because a model wrote it. A link
/// is written in full, by a name that is defined elsewhere, or as a bare address.
fn safe(text: &str) -> String {
    fence::visible(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace("](", "]\\(")
        .replace("][", "]\\[")
        .replace("]:", "]\\:")
        .replace("://", ":\\//")
        .replace("www.", "www\\.")
}

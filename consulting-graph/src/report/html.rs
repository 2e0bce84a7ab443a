//! Renders a report as an HTML page.
//!
//! The page has no scripts, and its content security policy forbids loading resources and running scripts.

use super::{chart, document::Block};
use crate::fence;

const STYLE: &str = include_str!("page.css");

pub(super) fn render(title: &str, blocks: &[Block]) -> String {
    let body: String = blocks.iter().map(block).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        fence::escape_html(title)
    )
}

fn block(it: &Block) -> String {
    match it {
        Block::Heading(level, title) => {
            format!("<h{level}>{}</h{level}>\n", fence::escape_html(title))
        }
        Block::Notice(text) => format!("<p class=\"notice\">{}</p>\n", fence::escape_html(text)),
        Block::Text(text) => format!("<p>{}</p>\n", fence::escape_html(text)),
        Block::List(points) => {
            let points: String =
                points.iter().map(|it| format!("<li>{}</li>\n", fence::escape_html(it))).collect();
            format!("<ul>\n{points}</ul>\n")
        }
        Block::Table { header, lines } => table(header, lines),
        Block::Chart(it) => format!("<figure>\n{}</figure>\n", chart::svg(it)),
        Block::Quote(text) => format!("<blockquote>{}</blockquote>\n", fence::escape_html(text)),
        Block::Collapsed { title, blocks } => {
            let inner: String = blocks.iter().map(block).collect();
            format!(
                "<details>\n<summary>{}</summary>\n{inner}</details>\n",
                fence::escape_html(title)
            )
        }
    }
}

fn table(header: &[String], lines: &[Vec<String>]) -> String {
    let is_number =
        |column: usize| lines.iter().filter_map(|it| it.get(column)).all(|it| is_number(it));
    let class: Vec<&str> =
        (0..header.len()).map(|it| if is_number(it) { " class=\"number\"" } else { "" }).collect();
    let row = |tag: &str, cells: &[String]| -> String {
        let cell = |(idx, it): (usize, &String)| {
            let class = class.get(idx).copied().unwrap_or_default();
            format!("<{tag}{class}>{}</{tag}>", fence::escape_html(it))
        };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = lines.iter().map(|it| row("td", it)).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>\n{}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n",
        row("th", header)
    )
}

/// Returns whether a cell is numeric and therefore right-aligned.
fn is_number(cell: &str) -> bool {
    cell.contains(|it: char| it.is_ascii_digit())
        && cell.chars().all(|it| it.is_ascii_digit() || "+-\u{2212}.,$% /".contains(it))
}

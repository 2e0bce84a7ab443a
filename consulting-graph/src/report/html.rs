//! Renders a report as an HTML page.
//!
//! The page has no scripts, and its content security policy forbids loading resources and running scripts. Links lead
//! to parts of the page and to filings at the SEC.

use std::collections::BTreeSet;

use super::{
    bar_chart,
    document::{Block, Card, Cell, Link, Row, Table},
    figure_chart, interval_chart,
};
use crate::{fence::escape_html, finding::find_citations};

const STYLE: &str = include_str!("page.css");

pub(crate) fn render(title: &str, blocks: &[Block]) -> String {
    let page = Page { ids: blocks.iter().flat_map(ids).collect(), contents: contents(blocks) };
    let body: String = blocks.iter().map(|it| page.block(it)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape_html(title)
    )
}

/// Returns the ids that links can refer to.
fn ids(block: &Block) -> Vec<String> {
    match block {
        Block::Target(_, _, id) => vec![id.clone()],
        Block::Table(table) => table.rows.iter().filter_map(|it| it.id.clone()).collect(),
        Block::Collapsed { blocks, .. } | Block::PageOnly(blocks) => {
            blocks.iter().flat_map(ids).collect()
        }
        _ => Vec::new(),
    }
}

fn contents(blocks: &[Block]) -> String {
    let entry = |block: &Block| match block {
        Block::Heading(2, title) => {
            Some(format!("<a href=\"#{}\">{}</a>\n", slug(title), escape_html(title)))
        }
        _ => None,
    };
    let entries: String = blocks.iter().filter_map(entry).collect();
    format!("<nav aria-label=\"Contents\">\n{entries}</nav>\n")
}

/// Returns the id of a heading.
fn slug(title: &str) -> String {
    let words = title.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

struct Page {
    /// Ids of the table rows and headings that links can refer to.
    ids: BTreeSet<String>,
    contents: String,
}

impl Page {
    fn block(&self, it: &Block) -> String {
        match it {
            Block::Heading(level, title) => {
                let id =
                    if *level == 2 { format!(" id=\"{}\"", slug(title)) } else { String::new() };
                format!("<h{level}{id}>{}</h{level}>\n", escape_html(title))
            }
            Block::Target(level, title, id) => {
                let (id, title) = (escape_html(id), escape_html(title));
                format!("<h{level} id=\"{id}\">{title}</h{level}>\n")
            }
            Block::Contents => self.contents.clone(),
            Block::Notice(text) => format!("<p class=\"notice\">{}</p>\n", escape_html(text)),
            Block::Text(text) => format!("<p>{}</p>\n", self.linked(text)),
            Block::Legend(text) => format!("<p class=\"legend\">{}</p>\n", self.linked(text)),
            Block::List(points) => {
                let points: String =
                    points.iter().map(|it| format!("<li>{}</li>\n", self.linked(it))).collect();
                format!("<ul>\n{points}</ul>\n")
            }
            Block::Cards(cards) => {
                let cards: String = cards.iter().map(|it| self.card(it)).collect();
                format!("<div class=\"cards\">\n{cards}</div>\n")
            }
            Block::Table(table) => self.table(table),
            Block::Bars(chart) => bar_chart::figure(chart),
            Block::Figure(chart) => figure_chart::figure(chart),
            Block::Intervals(chart) => interval_chart::figure(chart),
            Block::Quote(text) => format!("<blockquote>{}</blockquote>\n", self.linked(text)),
            Block::Collapsed { title, blocks } => {
                format!(
                    "<details>\n<summary>{}</summary>\n{}</details>\n",
                    escape_html(title),
                    self.blocks(blocks)
                )
            }
            Block::PageOnly(blocks) => self.blocks(blocks),
            Block::MarkdownOnly(_) => String::new(),
        }
    }

    fn blocks(&self, blocks: &[Block]) -> String {
        blocks.iter().map(|it| self.block(it)).collect()
    }

    fn card(&self, card: &Card) -> String {
        let row = |(label, text): &(&str, String)| {
            format!("<dt>{label}</dt><dd>{}</dd>\n", self.linked(text))
        };
        let rows: String = card.rows.iter().map(row).collect();
        format!(
            "<article class=\"card\">\n<h3>{}</h3>\n<p class=\"legend\">{}</p>\n<dl>\n{rows}</dl>\n</article>\n",
            self.link(&card.title),
            escape_html(&card.subtitle)
        )
    }

    /// Renders a table. On narrow screens, each row becomes a list of cells with the names of their columns.
    fn table(&self, table: &Table) -> String {
        let is_number =
            |column: usize| table.rows.iter().filter_map(|it| it.cells.get(column)).all(is_number);
        let class: Vec<&str> = (0..table.header.len())
            .map(|it| if is_number(it) { " class=\"number\"" } else { "" })
            .collect();
        let class = |idx: usize| class.get(idx).copied().unwrap_or_default();
        let names: Vec<String> = table.header.iter().map(|it| escape_html(it)).collect();
        let head: String =
            (0..).zip(&names).map(|(idx, it)| format!("<th{}>{it}</th>", class(idx))).collect();
        let row = |row: &Row| {
            let cell = |(idx, it): (usize, &Cell)| {
                let name = names.get(idx).map_or("", String::as_str);
                format!("<td{} data-name=\"{name}\"><div>{}</div></td>", class(idx), self.cell(it))
            };
            let id = row.id.as_ref().map(|it| format!(" id=\"{}\"", escape_html(it)));
            let cells: String = row.cells.iter().enumerate().map(cell).collect();
            format!("<tr{}>{cells}</tr>\n", id.unwrap_or_default())
        };
        let body: String = table.rows.iter().map(row).collect();
        format!(
            "<div class=\"wide\"><table>\n<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
        )
    }

    fn cell(&self, cell: &Cell) -> String {
        match cell {
            Cell::Text(text) => self.linked(text),
            Cell::Links(links) => {
                links.iter().map(|it| self.link(it)).collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Renders a link. A link to an id that the page does not have becomes plain text.
    fn link(&self, link: &Link) -> String {
        let text = escape_html(&link.text);
        let is_known = link.address.strip_prefix('#').is_none_or(|id| self.ids.contains(id));
        if is_known {
            format!("<a href=\"{}\">{text}</a>", escape_html(&link.address))
        } else {
            text
        }
    }

    /// Escapes a text and links its citations to the findings.
    fn linked(&self, text: &str) -> String {
        let mut html = String::new();
        let mut rest = 0;
        for (at, id) in find_citations(text) {
            let Ok(id) = id else { continue };
            let digits = text[at + 3..].find(|it: char| !it.is_ascii_digit());
            let end = digits.map_or(text.len(), |it| at + 3 + it);
            html += &escape_html(&text[rest..at]);
            html += &self.link(&Link::to(&text[at..end], &id.to_string()));
            rest = end;
        }
        html + &escape_html(&text[rest..])
    }
}

/// Returns whether a cell is numeric and therefore right-aligned.
fn is_number(cell: &Cell) -> bool {
    let Cell::Text(text) = cell else { return false };
    text.contains(|it: char| it.is_ascii_digit())
        && !text.starts_with('m')
        && text.chars().all(|it| it.is_ascii_digit() || "+-\u{2212}.,$% /m".contains(it))
}

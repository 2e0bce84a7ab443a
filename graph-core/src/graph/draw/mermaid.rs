//! Mermaid flowcharts.
//!
//! Nodes get ids of their own and users' text stands only in quoted labels, so no name can break the syntax.

use std::collections::BTreeMap;

use super::{Drawing, DrawnEdge, DrawnKind, DrawnNode, visible};

pub(super) fn text(drawing: &Drawing) -> String {
    let mut lines = vec!["flowchart TD".to_owned()];
    add_nodes(drawing, None, "    ", &mut lines);
    let positions = drawing.positions();
    lines.extend(drawing.edges.iter().filter_map(|it| edge_line(drawing, it, &positions)));
    lines.join("\n") + "\n"
}

fn add_nodes(drawing: &Drawing, parent: Option<&str>, indent: &str, lines: &mut Vec<String>) {
    for (at, node) in drawing.inside(parent) {
        if drawing.doors(at).is_none() {
            lines.push(format!("{indent}n{at}{}", shape(node)));
            continue;
        }
        lines.push(format!("{indent}subgraph n{at}[\"{}\"]", escape(&node.lines().join(", "))));
        let inner = format!("{indent}    ");
        // Without it Mermaid turns the inside of a block by a quarter.
        lines.push(format!("{inner}direction TB"));
        add_nodes(drawing, Some(&node.id), &inner, lines);
        lines.push(format!("{indent}end"));
    }
}

fn shape(node: &DrawnNode) -> String {
    let lines: Vec<_> = node.lines().iter().map(|it| escape(it)).collect();
    let label = lines.join("<br/>");
    match node.kind {
        // Not escaped, to be legible in the text too: some versions show `__start__` as a bold `start`.
        DrawnKind::Start | DrawnKind::End => format!("([\"{}\"])", node.name),
        DrawnKind::Node => format!("[\"{label}\"]"),
        DrawnKind::Subgraph => format!("[[\"{label}\"]]"),
    }
}

fn edge_line(
    drawing: &Drawing,
    edge: &DrawnEdge,
    positions: &BTreeMap<&str, usize>,
) -> Option<String> {
    let (from, to) = (*positions.get(edge.from.as_str())?, *positions.get(edge.to.as_str())?);
    // Older versions fail on a block that leads to itself, so its END leads to its START.
    let (from, to) = match drawing.doors(from) {
        Some((first, last)) if from == to => (last, first),
        _ => (from, to),
    };
    let arrow = match edge {
        DrawnEdge { conditional: true, .. } => "-.->",
        DrawnEdge { join: Some(_), .. } => "==>",
        _ => "-->",
    };
    let caption = drawing.caption(edge).map(|it| format!("|\"{}\"|", escape(&it)));
    Some(format!("    n{from} {arrow}{} n{to}", caption.unwrap_or_default()))
}

/// Text as the inside of a quoted label.
///
/// Some versions take labels for Markdown, show `1. plan` as an unsupported list, `fa:fa-car` as an icon and
/// `$$x$$` as a formula, so all punctuation but the harmless becomes an entity.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut last = None;
    for c in text.chars() {
        let in_word = last.is_some_and(char::is_alphanumeric);
        match c {
            '"' => escaped.push_str("#quot;"),
            '&' => escaped.push_str("#amp;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '\n' => escaped.push_str("<br/>"),
            ' ' | ',' | '/' if last.is_some() => escaped.push(c),
            '_' | '-' if in_word => escaped.push(c),
            ' '..='~' if !c.is_ascii_alphanumeric() => escaped += &format!("#{};", u32::from(c)),
            c => escaped.push(visible(c)),
        }
        last = Some(c);
    }
    escaped
}

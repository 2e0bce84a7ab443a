//! Output as Mermaid flowcharts.
//!
//! Nodes get generated ids, and user text appears only in quoted labels, so no name can break the syntax.

use std::collections::BTreeMap;

use crate::graph::draw::drawing::{Drawing, DrawnEdge, DrawnKind, DrawnNode, visible};

pub(super) fn text(drawing: &Drawing) -> String {
    let mut lines = vec!["flowchart TD".to_owned()];
    add_nodes(drawing, None, "    ", &mut lines);
    let positions = drawing.positions();
    lines.extend(drawing.edges.iter().filter_map(|it| edge_line(drawing, it, &positions)));
    lines.join("\n") + "\n"
}

fn add_nodes(drawing: &Drawing, parent: Option<&str>, indent: &str, lines: &mut Vec<String>) {
    for (at, node) in drawing.children(parent) {
        if drawing.first_and_last_inside(at).is_none() {
            lines.push(format!("{indent}n{at}{}", shape(node)));
            continue;
        }
        lines.push(format!(
            "{indent}subgraph n{at}[\"{}\"]",
            escape(&node.label_lines().join(", "))
        ));
        let inner = format!("{indent}    ");
        // Without an explicit direction, Mermaid lays out the contents of a block from left to right.
        lines.push(format!("{inner}direction TB"));
        add_nodes(drawing, Some(&node.id), &inner, lines);
        lines.push(format!("{indent}end"));
    }
}

fn shape(node: &DrawnNode) -> String {
    let lines: Vec<_> = node.label_lines().iter().map(|it| escape(it)).collect();
    let label = lines.join("<br/>");
    match node.kind {
        // The name is not escaped, to keep the Mermaid source readable, although some Mermaid versions render
        // `__start__` as a bold "start".
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
    // Older Mermaid versions fail on an edge from a block to itself, so connect the block's last node to its first.
    let (from, to) = match drawing.first_and_last_inside(from) {
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

/// Escapes a text for use inside a quoted label.
///
/// Some Mermaid versions interpret labels as Markdown and render `1. plan` as an unsupported list, `fa:fa-car` as an
/// icon and `$$x$$` as a formula. Therefore all punctuation that is not known to be harmless becomes an entity.
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

//! Output in Graphviz's DOT language.

use std::collections::BTreeMap;

use crate::graph::draw::drawing::{Drawing, DrawnEdge, DrawnKind, DrawnNode, visible};

pub(super) fn text(drawing: &Drawing) -> String {
    let mut lines = vec![
        "digraph {".to_owned(),
        "    compound=true;".to_owned(),
        // With the default rank separation, only the head of an edge that ends at a cluster border would be visible.
        "    ranksep=0.8;".to_owned(),
        "    node [shape=box, style=rounded];".to_owned(),
    ];
    add_nodes(drawing, None, "    ", &mut lines);
    let positions = drawing.positions();
    lines.extend(drawing.edges.iter().filter_map(|it| edge_line(drawing, it, &positions)));
    lines.push("}".to_owned());
    lines.join("\n") + "\n"
}

fn add_nodes(drawing: &Drawing, parent: Option<&str>, indent: &str, lines: &mut Vec<String>) {
    for (at, node) in drawing.children(parent) {
        let label = quoted(&node.label_lines().join("\n"));
        if drawing.first_and_last_inside(at).is_none() {
            lines.push(format!("{indent}{} [label={label}{}];", quoted(&node.id), shape(node)));
            continue;
        }
        lines.push(format!("{indent}subgraph {} {{", cluster(&node.id)));
        lines.push(format!("{indent}    label={label};"));
        add_nodes(drawing, Some(&node.id), &format!("{indent}    "), lines);
        lines.push(format!("{indent}}}"));
    }
}

fn shape(node: &DrawnNode) -> &'static str {
    match node.kind {
        DrawnKind::Start | DrawnKind::End => ", shape=oval",
        DrawnKind::Node => "",
        DrawnKind::Subgraph => ", peripheries=2",
    }
}

/// Formats an edge. DOT edges cannot connect clusters, so an edge of an expanded subgraph is attached to a node inside
/// the subgraph and clipped at the cluster's border with `ltail` and `lhead`.
fn edge_line(
    drawing: &Drawing,
    edge: &DrawnEdge,
    positions: &BTreeMap<&str, usize>,
) -> Option<String> {
    let (from, to) = (*positions.get(edge.from.as_str())?, *positions.get(edge.to.as_str())?);
    let mut options = Vec::new();
    if edge.conditional {
        options.push("style=dashed".to_owned());
    } else if edge.join.is_some() {
        options.push("style=bold".to_owned());
    }
    options.extend(drawing.caption(edge).map(|it| format!("label={}", quoted(&it))));
    let (mut tail, mut head) = (from, to);
    if let Some((_, last)) = drawing.first_and_last_inside(from) {
        tail = last;
        options.extend((from != to).then(|| format!("ltail={}", cluster(&edge.from))));
    }
    if let Some((first, _)) = drawing.first_and_last_inside(to) {
        head = first;
        options.extend((from != to).then(|| format!("lhead={}", cluster(&edge.to))));
    }
    let (tail, head) = (quoted(&drawing.nodes[tail].id), quoted(&drawing.nodes[head].id));
    let options = options.join(", ");
    let options = if options.is_empty() { options } else { format!(" [{options}]") };
    Some(format!("    {tail} -> {head}{options};"))
}

fn cluster(id: &str) -> String {
    quoted(&format!("cluster_{id}"))
}

/// Quotes a text so that it displays correctly as a label and stays unique as an id.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '&' => quoted.push_str("&amp;"),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(visible(c)),
        }
    }
    quoted.push('"');
    quoted
}

//! Markdown tables.

/// Renders a table with a header. Returns an empty string if there are no rows.
pub(super) fn table(header: &[String], lines: &[Vec<String>]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = line(header);
    text.push_str(&line(&vec!["---".to_owned(); header.len()]));
    text.extend(lines.iter().map(|it| line(it)));
    text
}

fn line(cells: &[String]) -> String {
    // A pipe would start another cell, and a newline would end the table row.
    let cells: Vec<String> =
        cells.iter().map(|it| it.replace('|', "/").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}

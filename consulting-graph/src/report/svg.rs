//! Elements that all charts have in common.

use crate::fence;

/// Width of a chart, in units of its coordinate system. A phone shows it at about three quarters of its size.
pub(super) const WIDTH: f64 = 480.0;

/// Maximum number of parts that have different colours.
const COLOURS: usize = 4;

/// Renders a figure with a title and a legend. The CSS classes `part0`, `part1` and so on determine the colours of the
/// parts.
pub(super) fn figure(title: &str, parts: &[String], height: usize, body: &str) -> String {
    let title = fence::escape_html(title);
    let key = |(idx, name): (usize, &String)| {
        let idx = idx.min(COLOURS - 1);
        format!("<span><i class=\"part{idx}\"></i>{}</span>", fence::escape_html(name))
    };
    let keys: String = parts.iter().enumerate().map(key).collect();
    let legend =
        if parts.is_empty() { String::new() } else { format!("<p class=\"key\">{keys}</p>\n") };
    format!(
        "<figure>\n<figcaption>{title}</figcaption>\n{legend}\
         <svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height}\">\n{body}</svg>\n</figure>\n"
    )
}

pub(super) fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = fence::escape_html(text);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

pub(super) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

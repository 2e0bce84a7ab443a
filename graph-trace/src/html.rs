//! Renders a run as a self-contained HTML page.
//!
//! The values of a run are untrusted, because they may come from a model or from anyone who talked to the model.
//! They are therefore embedded as JSON without any character that is special in HTML, and the page's script only
//! turns them into text nodes. A content security policy prevents the browser from running or loading anything
//! except the script and the style of this crate.

mod data;
mod executed_path;
mod layout;

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use graph_core::draw::Drawing;
use sha2::{Digest, Sha256};

use crate::trace::Trace;

const STYLE: &str = include_str!("html/page.css");
const BODY: &str = include_str!("html/page.html");
/// The files of the page's script, in the order of their dependencies.
const SCRIPT: &[&str] = &[
    include_str!("html/dom.js"),
    include_str!("html/trace.js"),
    include_str!("html/value.js"),
    include_str!("html/graph.js"),
    include_str!("html/lanes.js"),
    include_str!("html/timeline.js"),
    include_str!("html/list.js"),
    include_str!("html/detail.js"),
    include_str!("html/main.js"),
];

impl Trace {
    /// Renders the run as a single HTML file that loads no other files. The page shows the graph with the executed
    /// path, a timeline, and the details of each task.
    ///
    /// `drawing` must be a drawing of the graph that ran. The page expands the same subgraphs as the drawing.
    ///
    /// ```
    /// # use graph_core::{RunOptions, START, State, StateGraph};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("done") }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let recorded = graph_trace::record(&graph, Essay::default(), (), RunOptions::new()).await;
    /// let page = recorded.trace.html("an essay", &graph.drawing(1));
    /// std::fs::write(std::env::temp_dir().join("essay.html"), page)?;
    /// # Ok(()) }
    /// ```
    pub fn html(&self, title: &str, drawing: &Drawing) -> String {
        let script = script();
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; \
             base-uri 'none'; form-action 'none'",
            sha256(&script),
            sha256(STYLE),
        );
        let data = serde_json::to_string(&data::of(self, title, drawing))
            .expect("a trace can always be serialised as JSON");
        let mut page = String::with_capacity(data.len() + script.len() + STYLE.len() + 4096);
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n{BODY}\n\
             <script type=\"application/json\" id=\"data\">{}</script>\n\
             <script>{script}</script>\n</body>\n</html>\n",
            escape_html(title),
            escape_json(&data),
        );
        page
    }
}

/// Returns the page's script, wrapped in a function scope.
fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPT.concat())
}

/// Returns the hash by which the content security policy identifies a script or a style.
fn sha256(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

/// Escapes the characters in a JSON text that are special in HTML or that end a line in JavaScript. They occur only
/// in strings, where JSON permits escape sequences.
fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text for HTML.
fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{escape_html, escape_json, sha256};

    #[test]
    fn escaped_json_is_the_same_value_without_markup() {
        let value = json!({ "</script><!--": "\u{2028}\u{2029}&amp;\"'\\<", "n": [1.5, null] });
        let text = escape_json(&value.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn hashes_are_base64() {
        assert_eq!(sha256("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }

    #[test]
    fn a_title_cannot_close_its_html_element() {
        assert_eq!(
            escape_html("</title><b a=\"'\">&"),
            "&lt;/title&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;"
        );
    }
}

//! A run as one HTML page that needs nothing but a browser.
//!
//! What a run wrote is not to be trusted: a model may have written it, or whoever talked to the model. So it stands in
//! the page as JSON that holds no character with a meaning in HTML, the page's script turns it into text nodes only,
//! and a policy keeps the browser from running or loading anything but the script and the style that are part of this
//! crate.

mod data;
mod layout;
mod lit;
mod sha256;

use std::fmt::Write;

use graph_core::draw::Drawing;

use crate::trace::Trace;

const STYLE: &str = include_str!("html/page.css");
const BODY: &str = include_str!("html/page.html");
/// In the order in which they use each other.
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
    /// The run as a page of HTML, in one file that loads nothing: the graph with the way the run took, a timeline, and
    /// all that each task did.
    ///
    /// The drawing is that of the graph that ran; subgraphs are shown as open as it shows them.
    ///
    /// ```
    /// # use graph_core::{RunOptions, START, State, StateGraph};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("done") }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let recorded = graph_trace::record(&graph, Essay::default(), (), RunOptions::new()).await;
    /// let page = recorded.trace.html("an essay", &graph.drawing(1));
    /// std::fs::write(std::env::temp_dir().join("essay.html"), page)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn html(&self, title: &str, drawing: &Drawing) -> String {
        let script = script();
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; \
             base-uri 'none'; form-action 'none'",
            sha256::base64(script.as_bytes()),
            sha256::base64(STYLE.as_bytes()),
        );
        let data = serde_json::to_string(&data::of(self, title, drawing))
            .expect("a trace holds nothing that JSON cannot");
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
            escaped(title),
            inert(&data),
        );
        page
    }
}

/// The page's script, its files in a scope of their own.
fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPT.concat())
}

/// JSON without the characters that mean something in HTML, or end a line in JavaScript: they stand in strings only,
/// where JSON has another way to write them.
fn inert(json: &str) -> String {
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

/// Text as HTML.
fn escaped(text: &str) -> String {
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

    use super::{escaped, inert};

    #[test]
    fn inert_json_is_the_same_value_without_markup() {
        let value = json!({ "</script><!--": "\u{2028}\u{2029}&amp;\"'\\<", "n": [1.5, null] });
        let text = inert(&value.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn a_title_cannot_leave_its_element() {
        assert_eq!(
            escaped("</title><b a=\"'\">&"),
            "&lt;/title&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;"
        );
    }
}

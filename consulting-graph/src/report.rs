//! The report on a consulting run, which can be rendered as Markdown, HTML and JSON.

mod chart;
mod document;
mod evaluation;
mod html;
mod markdown;
mod outcome;
mod sections;

pub use evaluation::Report;
pub use outcome::{Isolation, Outcome, Provider, Spending};

impl Report {
    /// Renders the report as Markdown.
    pub fn markdown(&self) -> String {
        markdown::render(&sections::document(self))
    }

    /// Renders the report as a self-contained HTML page without scripts.
    pub fn html(&self) -> String {
        html::render(&sections::title(self), &sections::document(self))
    }
}

//! The report on a consulting run, which can be rendered as Markdown, HTML and JSON.

pub(crate) mod bar_chart;
pub(crate) mod document;
mod due_date;
mod evaluation;
mod evidence;
mod figure_chart;
mod figures;
pub(crate) mod html;
pub(crate) mod interval_chart;
mod isolation;
pub(crate) mod markdown;
mod objection;
mod outcome;
mod sections;
mod svg;

pub use evaluation::Report;
pub use figures::{ChartForm, ChartUnit, FigureChart, FigureSeries};
pub use isolation::Isolation;
pub use objection::{Objection, strongest_objection};
pub use outcome::{Outcome, Provider, SpendingEntry};

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

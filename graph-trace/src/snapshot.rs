//! Snapshot tests, which compare the trace of a run with an approved trace.
//!
//! Snapshots are managed by [`insta`]. Review them with `cargo insta review`, or write them with
//! `INSTA_UPDATE=always`. They are stored in the directory `snapshots` next to the test's source file and are named
//! after the test.

mod explain;

use crate::{
    redact::Redactions,
    text::{Detail, TextOptions},
    trace::Trace,
};

/// Runs a graph and compares its trace with a snapshot, or compares an existing trace with a snapshot.
///
/// If the first argument is a graph, the macro awaits the run, so it can be used only in an async test. To
/// configure the snapshot, add [`SnapshotOptions`] after a semicolon.
///
/// ```no_run
/// use graph_core::{RunOptions, START, State, StateGraph};
/// use graph_trace::{Detail, SnapshotOptions, assert_trace_snapshot, record};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let essay = Essay { topic: "tea".into(), ..Essay::default() };
///
/// assert_trace_snapshot!(graph, essay.clone());
/// // With dependencies, with options, and with the state after each step.
/// assert_trace_snapshot!(graph, essay.clone(), ());
/// assert_trace_snapshot!(graph, essay.clone(), (), RunOptions::new().step_limit(5));
/// assert_trace_snapshot!(graph, essay.clone(); SnapshotOptions::new(Detail::Full).redact("text"));
/// // A run that was recorded, or a trace.
/// let recorded = record(&graph, essay, (), RunOptions::new()).await;
/// assert_trace_snapshot!(recorded);
/// # Ok(()) }
/// ```
///
/// If the trace differs from the snapshot, a line above [`insta`]'s comparison shows the superstep and the task of
/// the first difference.
///
/// ```text
/// first difference: step 3, task `write` (2nd of 4): now `drafts <- ["b"]`, was `drafts <- ["a"]`
/// ```
#[macro_export]
macro_rules! assert_trace_snapshot {
    ($graph:expr, $input:expr, $deps:expr, $options:expr; $snapshot:expr) => {{
        let recorded = $crate::record(&$graph, $input, $deps, $options).await;
        $crate::__assert_trace_snapshot!(
            recorded,
            $snapshot,
            concat!(stringify!($graph), ", ", stringify!($input))
        )
    }};
    ($graph:expr, $input:expr, $deps:expr; $snapshot:expr) => {
        $crate::assert_trace_snapshot!(
            $graph,
            $input,
            $deps,
            $crate::__private::RunOptions::new();
            $snapshot
        )
    };
    ($graph:expr, $input:expr; $snapshot:expr) => {
        $crate::assert_trace_snapshot!($graph, $input, (); $snapshot)
    };
    ($trace:expr; $snapshot:expr) => {
        $crate::__assert_trace_snapshot!($trace, $snapshot, stringify!($trace))
    };
    ($($arguments:expr),+ $(,)?) => {
        $crate::assert_trace_snapshot!($($arguments),+; $crate::SnapshotOptions::default())
    };
}

/// Performs the assertion. It expands to insta's own macro, which derives the name of the snapshot from the crate,
/// module and function in which it is expanded.
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_trace_snapshot {
    ($trace:expr, $snapshot:expr, $shown:expr) => {{
        let options: $crate::SnapshotOptions = $snapshot;
        let content = options.content(&$trace);
        $crate::__private::settings()
            .bind(|| $crate::__private::insta::assert_snapshot!(options.name(), content, $shown))
    }};
}

/// Options for a snapshot of a trace: its level of detail, redactions and format.
///
/// ```
/// use graph_trace::{Detail, SnapshotOptions};
///
/// let options = SnapshotOptions::new(Detail::Full)
///     .named("with states")
///     .redact("messages[*].id")
///     .redact_text("req-*");
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SnapshotOptions {
    name: Option<String>,
    detail: Detail,
    format: Format,
    redactions: Redactions,
}

#[derive(Clone, Copy, Debug, Default)]
enum Format {
    #[default]
    Text,
    Json,
}

/// Default replacement for redacted values.
const REDACTED: &str = "[redacted]";

impl SnapshotOptions {
    /// Creates options with this level of detail.
    pub fn new(detail: Detail) -> Self {
        Self { detail, ..Self::default() }
    }

    /// Sets the name of the snapshot. The default is the name of the test.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Stores the snapshot as JSON, which is intended for tools, instead of text.
    pub fn json(mut self) -> Self {
        self.format = Format::Json;
        self
    }

    /// Redacts the values at this path; see [`Redactions`].
    #[track_caller]
    pub fn redact(mut self, path: &str) -> Self {
        self.redactions = self.redactions.path(path, REDACTED);
        self
    }

    /// Redacts the parts of texts that match this pattern; see [`Redactions`].
    pub fn redact_text(mut self, pattern: &str) -> Self {
        self.redactions = self.redactions.text(pattern, REDACTED);
        self
    }

    /// Replaces all redactions that have been set so far.
    pub fn redactions(mut self, redactions: Redactions) -> Self {
        self.redactions = redactions;
        self
    }

    /// Returns the content of a trace's snapshot.
    pub fn content(&self, trace: &impl AsRef<Trace>) -> String {
        let trace = trace.as_ref().redacted(&self.redactions);
        match self.format {
            Format::Text => trace.text(TextOptions::new(self.detail)),
            Format::Json => {
                let mut trace = trace.reduced(self.detail);
                // Removes the hash of the graph and the version of the engine, which may change although the run stays
                // the same.
                (trace.header.graph, trace.header.engine) = Default::default();
                serde_json::to_string_pretty(&trace).unwrap_or_else(|error| error.to_string())
            }
        }
    }

    #[doc(hidden)]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// Returns the current insta settings with a comparator that explains differences.
#[doc(hidden)]
pub fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_comparator(Box::new(explain::ExplainingComparator));
    settings
}

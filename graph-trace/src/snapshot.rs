//! Snapshot tests: a run's trace against the one that was approved.
//!
//! The files are [`insta`]'s: `cargo insta review` shows and accepts them, `INSTA_UPDATE=always` writes them. They
//! land in the folder `snapshots` beside the test's source, named after the test.

mod explain;

use crate::{
    redact::Redactions,
    text::{Detail, Shape},
    trace::Trace,
};

/// Runs a graph and compares what it did with a snapshot; or takes a trace that is there already.
///
/// It awaits the run where it is given a graph, so it stands in an async test. What comes after a semicolon says how
/// the snapshot is made: see [`Snapshot`].
///
/// ```no_run
/// use graph_core::{RunOptions, START, State, StateGraph};
/// use graph_trace::{Detail, Snapshot, assert_trace_snapshot, record};
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let essay = Essay { topic: "tea".into(), ..Essay::default() };
///
/// assert_trace_snapshot!(graph, essay.clone());
/// // With dependencies, with options, and with the state after each step.
/// assert_trace_snapshot!(graph, essay.clone(), ());
/// assert_trace_snapshot!(graph, essay.clone(), (), RunOptions::new().limit(5));
/// assert_trace_snapshot!(graph, essay.clone(); Snapshot::new(Detail::Full).redact("text"));
/// // A run that was recorded, or a trace.
/// let recorded = record(&graph, essay, (), RunOptions::new()).await;
/// assert_trace_snapshot!(recorded);
/// # Ok(())
/// # }
/// ```
///
/// When a snapshot differs, a line above [`insta`]'s comparison says where it differs first: in which superstep, in
/// which task.
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
        $crate::assert_trace_snapshot!($($arguments),+; $crate::Snapshot::default())
    };
}

/// The assertion itself. It goes through insta's own macro, which looks at the crate, the module and the function that
/// it stands in: these are the test's.
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_trace_snapshot {
    ($trace:expr, $snapshot:expr, $shown:expr) => {{
        let snapshot: $crate::Snapshot = $snapshot;
        let content = snapshot.content(&$trace);
        $crate::__private::settings()
            .bind(|| $crate::__private::insta::assert_snapshot!(snapshot.name(), content, $shown))
    }};
}

/// How a trace becomes a snapshot: how much of it, what of it is hidden, in which form.
///
/// ```
/// use graph_trace::{Detail, Snapshot};
///
/// let snapshot = Snapshot::new(Detail::Full)
///     .named("with states")
///     .redact("messages[*].id")
///     .redact_text("req-*");
/// # let _ = snapshot;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Snapshot {
    name: Option<String>,
    detail: Detail,
    form: Form,
    redactions: Redactions,
}

#[derive(Clone, Copy, Debug, Default)]
enum Form {
    #[default]
    Text,
    Json,
}

/// What stands in place of what is hidden, unless it is said.
const REDACTED: &str = "[redacted]";

impl Snapshot {
    /// With so much of the trace.
    pub fn new(detail: Detail) -> Self {
        Self { detail, ..Self::default() }
    }

    /// Under this name; otherwise it has the test's.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// As JSON, for tools; otherwise it is text, for people.
    pub fn json(mut self) -> Self {
        self.form = Form::Json;
        self
    }

    /// Without what is at this path: see [`Redactions`].
    #[track_caller]
    pub fn redact(mut self, path: &str) -> Self {
        self.redactions = self.redactions.path(path, REDACTED);
        self
    }

    /// Without texts that fit this pattern: see [`Redactions`].
    pub fn redact_text(mut self, pattern: &str) -> Self {
        self.redactions = self.redactions.text(pattern, REDACTED);
        self
    }

    /// Without what these redactions hide, in place of those given so far.
    pub fn redactions(mut self, redactions: Redactions) -> Self {
        self.redactions = redactions;
        self
    }

    /// What the snapshot of a trace holds.
    pub fn content(&self, trace: &impl AsRef<Trace>) -> String {
        let trace = trace.as_ref().redacted(&self.redactions);
        match self.form {
            Form::Text => trace.text(Shape::new(self.detail)),
            Form::Json => {
                let mut trace = trace.reduced(self.detail);
                // They change with every version, which says nothing about the run.
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

/// insta's settings as they are, but that a difference is explained.
#[doc(hidden)]
pub fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_comparator(Box::new(explain::Explaining));
    settings
}

//! Renders a divergence as text.

use std::fmt;

use serde_json::Value;

use super::{Divergence, kind::DivergenceKind, summary::DiffSummary};
use crate::{
    path::TracePath,
    text::{outcome_text, plural},
};

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first difference: ")?;
        if self.path != TracePath::default() {
            write!(f, "{}, ", self.path)?;
        }
        writeln!(f, "{}", self.kind)?;
        writeln!(f, "  was: {}", display_value(self.was.as_ref()))?;
        writeln!(f, "  now: {}", display_value(self.now.as_ref()))?;
        self.summary.fmt(f)
    }
}

impl fmt::Display for DivergenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("input"),
            Self::Task => f.write_str("the task itself"),
            Self::Attempt => f.write_str("failed attempt"),
            Self::Effect => f.write_str("external call"),
            Self::StreamItem => f.write_str("stream output"),
            Self::Graph => f.write_str("steps of the graph"),
            Self::Error => f.write_str("error"),
            Self::Interrupt => f.write_str("interrupt"),
            Self::Write(field) => write!(f, "write to `{field}`"),
            Self::Route => f.write_str("route"),
            Self::Send => f.write_str("sent payload"),
            Self::State(field) => write!(f, "field `{field}` of the state after the step"),
            Self::End => f.write_str("outcome of the run"),
        }
    }
}

impl fmt::Display for DiffSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, tasks) = (plural(self.steps, "step"), plural(self.tasks, "task"));
        writeln!(f, "total: {tasks} in {steps} acted differently")?;
        for change in &self.routes {
            let (was, now) = (display_nodes(&change.was), display_nodes(&change.now));
            writeln!(f, "  {} routes to {now} instead of {was}", change.path)?;
        }
        for change in &self.fields {
            let (was, now) =
                (display_value(change.was.as_ref()), display_value(change.now.as_ref()));
            writeln!(f, "  field `{}` of the final state is {now} instead of {was}", change.field)?;
        }
        if self.effects.0 != self.effects.1 {
            let (was, now) = self.effects;
            writeln!(f, "  {} instead of {was}", plural(now, "external call"))?;
        }
        if let Some((was, now)) = &self.ends {
            writeln!(f, "  outcome: {} instead of {}", outcome_text(now), outcome_text(was))?;
        }
        Ok(())
    }
}

fn display_nodes(nodes: &[String]) -> String {
    if nodes.is_empty() { "nothing".to_owned() } else { format!("`{}`", nodes.join("`, `")) }
}

/// Renders a value, which is truncated if it is too long for one line.
fn display_value(value: Option<&Value>) -> String {
    const MAX_CHARS: usize = 300;
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

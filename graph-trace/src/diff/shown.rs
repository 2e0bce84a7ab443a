//! A divergence in words.

use std::fmt;

use serde_json::Value;

use super::{Divergence, Part, Summary};
use crate::{place::Place, text};

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first difference: ")?;
        if self.place != Place::default() {
            write!(f, "{}, ", self.place)?;
        }
        writeln!(f, "{}", self.part)?;
        writeln!(f, "  was: {}", shown(self.was.as_ref()))?;
        writeln!(f, "  now: {}", shown(self.now.as_ref()))?;
        self.after.fmt(f)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("its input"),
            Self::Task => f.write_str("which task it is"),
            Self::Attempt => f.write_str("a failed attempt"),
            Self::Effect => f.write_str("an outside call"),
            Self::Said => f.write_str("what it says"),
            Self::Graph => f.write_str("the graph's steps"),
            Self::Error => f.write_str("its error"),
            Self::Question => f.write_str("what it asks"),
            Self::Write(field) => write!(f, "what it writes to `{field}`"),
            Self::Route => f.write_str("where it leads"),
            Self::Send => f.write_str("what it sends"),
            Self::State(field) => write!(f, "`{field}` of the state after it"),
            Self::End => f.write_str("how the run ends"),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, tasks) = (counted(self.steps, "step"), counted(self.tasks, "task"));
        writeln!(f, "in all: {tasks} in {steps} did something else")?;
        for change in &self.routes {
            let (was, now) = (listed(&change.was), listed(&change.now));
            writeln!(f, "  {} leads to {now}, not {was}", change.place)?;
        }
        for change in &self.fields {
            let (was, now) = (shown(change.was.as_ref()), shown(change.now.as_ref()));
            writeln!(f, "  `{}` of the last state is {now}, not {was}", change.field)?;
        }
        if self.effects.0 != self.effects.1 {
            let (was, now) = self.effects;
            writeln!(f, "  {} outside, not {was}", counted(now, "call"))?;
        }
        if let Some((was, now)) = &self.ends {
            writeln!(f, "  it ends otherwise: {}, not {}", text::end(now), text::end(was))?;
        }
        Ok(())
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn listed(nodes: &[String]) -> String {
    if nodes.is_empty() { "nothing".to_owned() } else { format!("`{}`", nodes.join("`, `")) }
}

/// A value, cut where it is too long for a line.
fn shown(value: Option<&Value>) -> String {
    const LONGEST: usize = 300;
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

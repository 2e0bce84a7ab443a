//! What a replay came to: the same run, or another one, and where it left its recording.

use std::fmt;

use graph_core::{Exit, RunError};

use super::{Call, Recording, Replayer};
use crate::{Divergence, Recorded, Trace};

/// A run that was replayed.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct Replayed<S> {
    /// What it did.
    pub trace: Trace,
    /// How it ended.
    pub outcome: Result<Exit<S>, RunError>,
    /// The calls that the recording does not know, in the order of their places.
    pub strays: Vec<Stray>,
    /// The recorded calls that were not made.
    pub left_over: Vec<Call>,
    /// Where what it did parts from what was recorded.
    pub divergence: Option<Divergence>,
    /// Whether the graph declares something else than the one that was recorded.
    pub graph_changed: bool,
}

impl<S> Replayed<S> {
    pub(super) fn new(recorded: Recorded<S>, replayer: &Replayer, recording: &Recording) -> Self {
        let Recorded { trace, outcome, .. } = recorded;
        Self {
            strays: replayer.strays(),
            left_over: replayer.left_over(),
            divergence: Trace::diff(&recording.trace, &trace),
            graph_changed: trace.header.graph != recording.header.graph,
            trace,
            outcome,
        }
    }

    /// An error that says in what the run differs from its recording, if it does.
    pub fn check(&self) -> Result<(), LeftRecording> {
        if self.strays.is_empty() && self.left_over.is_empty() && self.divergence.is_none() {
            return Ok(());
        }
        Err(LeftRecording {
            strays: self.strays.clone(),
            left_over: self.left_over.clone(),
            divergence: self.divergence.clone().map(Box::new),
            graph_changed: self.graph_changed,
        })
    }
}

impl<S> AsRef<Trace> for Replayed<S> {
    fn as_ref(&self) -> &Trace {
        &self.trace
    }
}

/// A call that a recording does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stray {
    /// Where it was made.
    pub place: String,
    /// Its name and key.
    pub key: String,
    /// The call that was expected there: one of the same name, or else the next one of that place.
    pub expected: Option<String>,
    /// How often the recording has it at that place: more than 0 if all of these were given back already.
    pub times: usize,
    /// Another place where the recording has it.
    pub elsewhere: Option<String>,
}

impl Stray {
    /// What is wrong with it, in words.
    pub(super) fn problem(&self) -> String {
        match self {
            Self { times: 1.., expected: None, .. } => {
                format!("the recording has it {} there and no more", count(self.times, "time"))
            }
            Self { expected: Some(expected), key, .. } => {
                format!("expected `{expected}`, got `{key}`")
            }
            Self { elsewhere: Some(place), .. } => {
                format!("the recording has it at {place}, and nothing more here")
            }
            _ => "the recording has nothing more here".to_owned(),
        }
    }
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}, call `{}`: {}", self.place, self.key, self.problem())
    }
}

/// In what a run differs from its recording.
#[derive(Clone, Debug)]
pub struct LeftRecording {
    strays: Vec<Stray>,
    left_over: Vec<Call>,
    divergence: Option<Box<Divergence>>,
    graph_changed: bool,
}

impl std::error::Error for LeftRecording {}

impl fmt::Display for LeftRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        f.write_str("the run is not the recorded one")?;
        if self.graph_changed {
            f.write_str(", nor is its graph")?;
        }
        for stray in self.strays.iter().take(SHOWN) {
            write!(f, "\n{stray}")?;
        }
        if self.strays.len() > SHOWN {
            write!(f, "\nand {} more that the recording does not have", self.strays.len() - SHOWN)?;
        }
        if let Some(divergence) = &self.divergence {
            write!(f, "\n{}", divergence.to_string().trim_end())?;
        }
        if !self.left_over.is_empty() {
            write!(f, "\n{} not made:", count(self.left_over.len(), "recorded call"))?;
        }
        for call in self.left_over.iter().take(SHOWN) {
            write!(f, "\n  at {}, `{}`", call.place, call.key)?;
        }
        if self.left_over.len() > SHOWN {
            write!(f, "\n  and {} more", self.left_over.len() - SHOWN)?;
        }
        Ok(())
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

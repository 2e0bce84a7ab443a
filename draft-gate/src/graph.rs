//! Runs the gate as a graph node. An escalation interrupts the run, and the person's verdict resumes it.
//!
//! Example: a worker adds a flag to `watchdog.py`.
//!
//! ```
#![doc = include_str!("../examples/watchdog.rs")]
//! ```

use std::sync::Arc;

use graph_core::{Context, NodeError};
use serde::{Deserialize, Serialize};

use crate::{Decision, Digest, Error, Gate, Judgement};

/// A person's verdict on an escalated change set. It is the value with which the run is resumed.
///
/// Each verdict carries the fingerprint of the reviewed judgement and applies only to that state of the change set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase", deny_unknown_fields)]
pub enum Verdict {
    Accept {
        fingerprint: Digest,
    },
    Reject {
        fingerprint: Digest,
        /// Reason to send to the worker.
        reason: String,
    },
    /// Replace the text of a file, then review again.
    Amend {
        fingerprint: Digest,
        path: String,
        content: String,
    },
}

/// Judges a change set inside a node. If a person must decide, interrupts the run with the [`Judgement`] and expects a
/// [`Verdict`] when the run is resumed. Interrupts again if the change set has changed in the meantime.
///
/// If a run is resumed after a crash, nothing is judged or applied twice.
pub async fn judge<C>(cx: &Context<C>, gate: &Arc<Gate>, set: &str) -> Result<Judgement, NodeError>
where
    C: Send + Sync + 'static,
{
    let mut judgement =
        cx.task("judge", set, run_blocking(gate, set, |gate, set| gate.judge(set))).await?;
    let mut round = 0;
    while judgement.decision == Decision::Escalate {
        let verdict: Verdict = cx.interrupt(&judgement)?;
        let act = move |gate: &Gate, set: &str| apply_verdict(gate, set, &verdict);
        judgement = cx.task("verdict", (set, round), run_blocking(gate, set, act)).await?;
        round += 1;
    }
    Ok(judgement)
}

/// Applies a verdict and returns the resulting judgement.
fn apply_verdict(gate: &Gate, set: &str, verdict: &Verdict) -> Result<Judgement, Error> {
    let done = match verdict {
        Verdict::Accept { fingerprint } => gate.accept(set, *fingerprint, "person"),
        Verdict::Reject { fingerprint, reason } => gate.reject(set, *fingerprint, reason, "person"),
        Verdict::Amend { fingerprint, path, content } => {
            gate.amend(set, path, content, *fingerprint, "person").map(drop)
        }
    };
    match done {
        Ok(())
        | Err(
            Error::StaleReview { .. }
            | Error::Conflict { .. }
            | Error::NotAllowed { .. }
            | Error::NotInSet { .. }
            | Error::UnknownSet { .. },
        ) => gate.inspect(set),
        Err(error) => Err(error),
    }
}

async fn run_blocking(
    gate: &Arc<Gate>,
    set: &str,
    act: impl FnOnce(&Gate, &str) -> Result<Judgement, Error> + Send + 'static,
) -> Result<Judgement, NodeError> {
    let (gate, set) = (gate.clone(), set.to_owned());
    Ok(tokio::task::spawn_blocking(move || act(&gate, &set)).await??)
}

//! The gate inside of a graph: an escalation is an interrupt, and the verdict is what the run is resumed with.
//!
//! The workflow of the design document, a new flag for `watchdog.py`, as a graph:
//!
//! ```
#![doc = include_str!("../examples/watchdog.rs")]
//! ```

use std::sync::Arc;

use graph_core::{Context, NodeError};
use serde::{Deserialize, Serialize};

use crate::{Decision, Digest, Error, Gate, Judgement};

/// What a person says to an escalated change set: the value that a run is resumed with.
///
/// Each names the sight that the question showed, so that it counts for exactly that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase", deny_unknown_fields)]
pub enum Verdict {
    /// Apply it.
    Accept {
        /// What was seen.
        sight: Digest,
    },
    /// Do not.
    Reject {
        /// What was seen.
        sight: Digest,
        /// Why, for the worker.
        reason: String,
    },
    /// Take this text for a file instead, and ask again.
    Amend {
        /// What was seen.
        sight: Digest,
        /// Which file.
        path: String,
        /// Its new text.
        content: String,
    },
}

/// Judges a change set within a node. Where a person has to decide, the run is interrupted with the [`Judgement`] as
/// its question and goes on with a [`Verdict`]; it asks again where something was changed meanwhile.
///
/// A run that crashes and goes on neither judges nor applies anything twice.
pub async fn judge<C>(cx: &Context<C>, gate: &Arc<Gate>, set: &str) -> Result<Judgement, NodeError>
where
    C: Send + Sync + 'static,
{
    let mut judgement = cx.task("judge", set, on(gate, set, |gate, set| gate.judge(set))).await?;
    let mut round = 0;
    while judgement.decision == Decision::Escalate {
        let verdict: Verdict = cx.interrupt(&judgement)?;
        let act = move |gate: &Gate, set: &str| follow(gate, set, &verdict);
        judgement = cx.task("verdict", (set, round), on(gate, set, act)).await?;
        round += 1;
    }
    Ok(judgement)
}

/// Carries a verdict out, or comes back with what there is to see now.
fn follow(gate: &Gate, set: &str, verdict: &Verdict) -> Result<Judgement, Error> {
    let done = match verdict {
        Verdict::Accept { sight } => gate.accept(set, *sight, "person"),
        Verdict::Reject { sight, reason } => gate.reject(set, *sight, reason, "person"),
        Verdict::Amend { sight, path, content } => {
            gate.amend(set, path, content, *sight, "person").map(drop)
        }
    };
    match done {
        Ok(())
        | Err(
            Error::SightChanged { .. }
            | Error::Conflict { .. }
            | Error::NotAllowed { .. }
            | Error::NotInSet { .. }
            | Error::NoSuchSet { .. },
        ) => gate.look(set),
        Err(error) => Err(error),
    }
}

async fn on(
    gate: &Arc<Gate>,
    set: &str,
    act: impl FnOnce(&Gate, &str) -> Result<Judgement, Error> + Send + 'static,
) -> Result<Judgement, NodeError> {
    let (gate, set) = (gate.clone(), set.to_owned());
    Ok(tokio::task::spawn_blocking(move || act(&gate, &set)).await??)
}

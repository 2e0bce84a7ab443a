//! The gate's decision on a change set, and the reasons for it.

use serde::{Deserialize, Serialize};

use crate::{digest::Digest, finding::Finding};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    Accept,
    Reject,
    Escalate,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judgement {
    pub set: String,
    pub decision: Decision,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
    /// Fingerprint of the judged state, that is, of the current and the proposed content of each file. A verdict must
    /// contain it.
    pub fingerprint: Digest,
    /// All changes as a unified diff.
    pub diff: String,
}

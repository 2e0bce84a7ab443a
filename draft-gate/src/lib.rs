//! Workers propose edits as drafts, and a gate decides what reaches the files.
//!
//! A worker, such as a local model, asks for a draft of a file, writes to it, and submits it. The gate freezes what
//! was submitted and looks at what it would change: it accepts, rejects, or asks a person. Nothing a worker says
//! or does reaches any file but its own drafts.
#![doc = include_str!("../docs/design.md")]

mod apply;
mod audit;
mod blob;
mod checks;
mod confine;
mod contract;
mod decide;
mod diff;
mod digest;
mod error;
mod extract;
mod fallback;
mod finding;
mod gate;
mod head;
mod hook;
mod inbox;
mod journal;
mod judge;
mod path;
mod project;
mod propose;
mod prune;
mod recheck;
mod registry;
mod scan;
mod sets;
mod stats;
mod submissions;
mod tool;
mod visible;
mod weigh;
mod worker;

#[cfg(feature = "graph")]
pub mod graph;
#[cfg(feature = "cli")]
pub mod mcp;
#[cfg(feature = "sandbox")]
pub mod sandbox;

pub use audit::{Record, Verified};
pub use checks::{CheckOutcome, ProjectChecks, ProjectFile};
pub use contract::{Check, Constraints, Contract, OnConflict, Preview, Rules};
pub use decide::Waiting;
pub use diff::FileDiff;
pub use digest::{Digest, NotADigest};
pub use error::Error;
pub use extract::{Extracted, extract};
pub use finding::{Finding, Weight};
pub use gate::Gate;
pub use inbox::{Message, MessageKind};
pub use judge::{Decision, Judgement};
pub use path::WorkspacePath;
pub use prune::Pruned;
pub use registry::Operation;
pub use scan::scan;
pub use stats::Stats;
pub use tool::{Read, Request, Requested, Submission, Submitted, Written};
pub use visible::visible;
pub use worker::Worker;

//! A review gate for edits. Workers propose changes as drafts, and the gate decides which changes reach the workspace.
//!
//! A worker, such as a local model, requests a draft of a file, writes to it, and submits it. The gate freezes the
//! submitted content, compares it with the file, and accepts it, rejects it, or escalates it to a person. Workers
//! cannot modify any file except their own drafts.
//!
//! The book's chapter [Threat model](../book/threat-model.html#draft-gate) lists the guarantees and their tests;
//! `cargo xtask book` renders it.
#![doc = include_str!("../docs/design.md")]
#![allow(missing_docs, reason = "this is the library of an application")]

mod apply;
mod assignment;
mod audit;
mod blob;
mod checks;
mod comparison;
mod confine;
mod context;
mod continuation;
mod contract;
mod decide;
mod diff;
mod digest;
mod disguise;
mod error;
mod escape;
mod evaluate;
mod extract;
mod fallback;
mod file_kind;
mod finding;
mod fold;
mod gate;
mod hook;
mod inbox;
mod journal;
mod judge;
mod judgement;
mod line_diff;
mod literal;
mod log_head;
mod markup;
mod password;
mod path;
mod pattern;
mod project_checks;
mod propose;
mod proposed_file;
mod protection;
mod prune;
mod random_text;
mod recheck;
mod records;
mod reference;
mod rules;
mod scan;
mod secret_name;
mod secret_value;
mod secret_words;
mod sentence;
mod sets;
mod stats;
mod submissions;
mod submit;
mod table;
mod token;
mod tool;
mod tool_files;
mod unicode;
mod work;
mod worker;

#[cfg(feature = "graph")]
pub mod graph;
#[cfg(feature = "cli")]
pub mod mcp;
#[cfg(feature = "sandbox")]
pub mod sandbox;

pub use audit::{LogVerification, Record};
pub use checks::{CheckOutcome, ProjectChecks, ProjectFile};
pub use contract::Check;
pub use decide::PendingSet;
pub use diff::{DiffPrecision, FileDiff};
pub use digest::{Digest, DigestParseError};
pub use error::Error;
pub use escape::escape_invisible;
pub use extract::{ExtractedFile, extract};
pub use finding::{Finding, Severity};
pub use gate::Gate;
pub use inbox::{Message, MessageKind};
pub use judgement::{Decision, Judgement};
pub use path::WorkspacePath;
pub use prune::PruneSummary;
pub use records::Operation;
pub use scan::scan;
pub use stats::Stats;
pub use tool::{Draft, DraftContent, DraftRequest, Submission, SubmissionReceipt, WriteReceipt};
pub use worker::Worker;

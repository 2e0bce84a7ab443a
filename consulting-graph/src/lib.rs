//! Turns a ticker into ranked strategic moves, each defended in a debate.
//!
//! ```text
//! ticker → data → findings F1 and F2 → 5 analysts propose 15 moves → one sandboxed debate per move → scores → top 3
//! ```
//!
//! A *move* is one strategic action that the company could take. *F1* stands for the findings from the financial data,
//! and *F2* for the findings from news and sentiment.
//!
//! | topic | module |
//! |---|---|
//! | the pipeline graph | [`pipeline`] |
//! | the debate graph, which runs in a sandbox; the host side of the debates | [`debate`]; [`debate_host`] |
//! | model calls and their failures; models and the budget; the scripted model | [`call`]; [`models`]; [`offline`] |
//! | events of a run | [`event`] |
//! | run directories: create, resume, replay and fork runs | [`run`] |
//! | company data from four sources | [`data`] |
//! | configuration: agents, metrics, models | [`config`] |
//! | prompts; delimiters around untrusted text | `prompt`; `fence` |
//! | findings and moves | `finding`, [`moves`] |
//! | debate transcripts | `transcript` |
//! | scoring and ranking | [`score`], [`rank`] |
//! | rule-based checks of citations, numbers and debates | `citation`, `watch` |
//! | the report | [`report`] |
//! | cost estimate, spending so far, comparison of two runs | [`plan`], [`spending`], [`diff`] |
//! | the ablation: whether debating helps | [`ablate`] |
//! | the HTTP service and its web page | [`serve`] |
//!
//! The book's chapter [Case study: the consulting pipeline](../book/consulting.html) explains the design, and [Does
//! debating help?](../book/ablation.html) measures it; `cargo xtask book` renders them.
#![allow(
    missing_docs,
    reason = "an application: only its own program and tests use the items of this library"
)]

pub mod ablate;
pub mod call;
mod citation;
#[cfg(feature = "cluster")]
pub mod cluster_servers;
#[cfg(feature = "cluster")]
pub mod cluster_worker;
pub mod config;
pub mod data;
pub mod debate;
pub mod debate_host;
pub mod diff;
mod difference;
pub mod event;
mod fence;
mod finding;
mod lenient_json;
mod limited_schema;
mod markdown;
pub mod models;
pub mod moves;
pub mod offline;
pub mod pipeline;
pub mod plan;
mod prompt;
mod quantity;
pub mod rank;
pub mod report;
pub mod run;
pub mod score;
mod sentence;
pub mod serve;
pub mod spending;
#[cfg(test)]
mod tests;
mod transcript;
mod unusable;
mod watch;

//! From a ticker to ranked strategic moves that were defended in debate.
//!
//! ```text
//! ticker → data → findings F1, F2 → five analysts, 15 moves → a debate about each, in a sandbox → scores → the best three
//! ```
//!
//! | what | where |
//! |---|---|
//! | the pipeline as a graph | [`pipeline`] |
//! | the debate as a graph of its own, which runs in a guest | [`debate`], held by [`debates`] |
//! | who answers calls, and what they may cost | [`models`], by [`ask`]; without a key [`offline`] |
//! | what happens while it runs | [`event`] |
//! | a run in a folder: start, resume, replay, fork | [`run`] |
//! | what is known of a company, from three sources | [`data`] |
//! | who takes part, what is measured, which models speak | [`config`] |
//! | what the models are asked | [`prompt`], with untrusted text behind a [`fence`] |
//! | what they conclude and propose | [`finding`], [`moves`] |
//! | the conversations | [`transcript`] |
//! | what the debates are worth | [`score`], [`rank`] |
//! | what is checked by rule | [`citation`] with [`quantity`], [`watch`] |
//! | what is left behind to read | [`report`] |
//! | what a run will take, has taken; how two runs differ | [`plan`], [`spent`], [`diff`] |
//! | the pipeline behind HTTP, and its page | [`serve`] |

mod answer;
pub mod ask;
pub mod citation;
pub mod config;
pub mod data;
pub mod debate;
pub mod debates;
pub mod diff;
pub mod event;
pub mod fence;
pub mod finding;
mod markdown;
pub mod models;
pub mod moves;
pub mod offline;
pub mod pipeline;
pub mod plan;
pub mod prompt;
pub mod quantity;
pub mod rank;
pub mod report;
pub mod run;
pub mod score;
mod sentence;
pub mod serve;
pub mod spent;
pub mod transcript;
pub mod watch;

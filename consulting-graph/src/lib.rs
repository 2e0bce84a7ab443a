//! From a ticker to ranked strategic moves that were defended in debate.
//!
//! This crate holds everything about that which needs neither a model nor a sandbox, as plain functions on plain data:
//!
//! | what | where |
//! |---|---|
//! | what is known of a company, from three sources | [`data`] |
//! | who takes part, what is measured, which models speak | [`config`] |
//! | what the models are asked | [`prompt`], with untrusted text behind a [`fence`] |
//! | what they conclude and propose | [`finding`], [`moves`] |
//! | the debates | [`transcript`] |
//! | what the debates are worth | [`score`], [`rank`] |
//! | what is checked by rule | [`citation`] with [`quantity`], [`watch`] |
//! | what is left behind to read | [`report`] |

mod answer;
pub mod citation;
pub mod config;
pub mod data;
pub mod fence;
pub mod finding;
mod markdown;
pub mod moves;
pub mod prompt;
pub mod quantity;
pub mod rank;
pub mod report;
pub mod score;
mod sentence;
pub mod transcript;
pub mod watch;

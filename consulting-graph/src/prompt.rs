//! Builds prompts. Each function is pure: the prompt depends only on the arguments.
//!
//! Providers charge about a tenth of the normal price for the prefix that a prompt shares with an earlier prompt. The
//! parts of a prompt are therefore ordered from the least to the most variable: the persona, the move with its
//! evidence, the debate so far (which only grows), and finally a short message with the round and the task. All text
//! written by models or users is fenced.

mod brief;
mod debate;
mod layers;
mod request;
mod samples;
mod scoring;

pub(crate) use brief::Brief;
pub(crate) use debate::{critic_opening, critic_reply, maker_conversation, maker_reply, summary};
pub(crate) use layers::{
    Chunk, analyst, analyst_retry, asks_for_remaining_findings, inference, inference_retry,
    remaining_findings, single_finding, synthesizer,
};
pub(crate) use request::request_for;
pub(crate) use samples::samples;
pub(crate) use scoring::{baseline, repair, score};

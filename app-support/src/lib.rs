//! Code that the bundled programs share: the files of a run, text that is safe to print, and command-line support.
//!
//! | topic | module |
//! |---|---|
//! | the event log of a run; lines of a growing file | [`event_log`], [`lines`] |
//! | files that are replaced atomically; the lock on a directory | [`files`], [`lock`] |
//! | ids of runs, and the directories they are stored in | [`run_id`], [`run_path`] |
//! | text from outside, made safe for terminals; numbers with singular or plural nouns | [`terminal`], [`plural`] |
//! | command-line values; output, logging and signals | [`args`], [`program`] |
//! | servers: options, blocking work, memory | [`server`], [`memory`] |

pub mod args;
pub mod event_log;
pub mod files;
pub mod lines;
pub mod lock;
#[cfg(feature = "server")]
pub mod memory;
pub mod plural;
#[cfg(feature = "program")]
pub mod program;
pub mod run_id;
pub mod run_path;
#[cfg(feature = "server")]
pub mod server;
pub mod terminal;

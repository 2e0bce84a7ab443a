//! Conformance suites for implementations of [`Checkpointer`](graph_core::checkpoint::Checkpointer) and
//! [`Store`](graph_core::store::Store).
//!
//! Add this crate to the development dependencies of the crate that implements the trait:
//!
//! ```toml
//! [dev-dependencies]
//! checkpoint-testkit = "0.1"
//! tokio = { version = "1", features = ["macros", "rt", "time"] }
//! ```
//!
//! Then run the suite of that trait in a test. The example tests [`MemorySaver`](graph_core::MemorySaver):
//!
//! ```
//! use std::sync::Arc;
//!
//! use checkpoint_testkit::checkpointer;
//! use graph_core::checkpoint::{Checkpointer, MemorySaver};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! // In a test: `#[tokio::test] async fn saver_conforms() { … }`
//! let new_saver = || async { Arc::new(MemorySaver::new()) as Arc<dyn Checkpointer> };
//! checkpointer::run(new_saver).await.assert();
//! # }
//! ```
//!
//! [`HookedSaver`] is a checkpointer for tests of programs that store checkpoints. Its hook can count, reject or drop
//! writes.
//!
//! The book's chapter [Threads, checkpoints, durability](../book/threads.html) explains what a checkpointer stores;
//! `cargo xtask book` renders it.

pub mod checkpointer;
mod hooked_saver;
mod report;
pub mod sample;
pub mod store;

pub use hooked_saver::{HookedSaver, WriteHook};
pub use report::{CheckFailure, Report};

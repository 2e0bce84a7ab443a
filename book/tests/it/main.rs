//! Checks of the book and of the READMEs. None of them needs a network.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

mod blocks;
mod book;
mod crates;
mod documents;
mod examples;
mod javascript;
mod peers;
mod python;
mod reference;

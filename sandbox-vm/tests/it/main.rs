//! Tests of the protocol between host and guest, and of the guest images. Tests that need guests of their own are in
//! `sandbox-testkit`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod fuzz;
mod handshake;
mod images;
mod misbehaving_guests;
mod parsing;

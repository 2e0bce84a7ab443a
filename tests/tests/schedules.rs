//! Eager graphs under all kinds of schedules: nothing that a run stores or reports depends on the order in which tasks
//! end.
//!
//! The tasks of these graphs wait at gates ([`gates`]), which a test opens in a chosen order, so the tests do not
//! depend on time.

#[path = "schedules/choices.rs"]
mod choices;
#[path = "schedules/gates.rs"]
mod gates;
#[path = "schedules/interleavings.rs"]
mod interleavings;
#[path = "schedules/traces.rs"]
mod traces;

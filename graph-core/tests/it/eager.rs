//! Eager graphs: tasks run ahead of slower branches, and nothing that a run stores or reports changes.

mod branches;
mod fields;
mod outcomes;
mod starts;

//! Middleware: hooks into an agent's loop, and ready-made ones.

mod hooks;

pub use hooks::{Hooks, Middleware};

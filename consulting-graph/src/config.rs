//! User configuration: personas, metrics, number of rounds per debate, and models.
//!
//! The configuration is one TOML file; [`DEFAULT`] is built into the program.

mod check;
mod parse;
mod schema;

pub use parse::ConfigError;
pub(crate) use schema::replace_ids;
pub use schema::{
    Config, Group, Inferences, Metric, ModelSetting, Persona, ResolvedModel, Summaries,
    Synthesizers,
};

/// The built-in configuration, which users can copy and edit.
pub const DEFAULT: &str = include_str!("../config/consulting.toml");

//! Parses configurations.

use super::{check::violations, schema::Config};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("line {line}, column {column}: {message}")]
    Toml { line: usize, column: usize, message: String },
    #[error("{}", .0.join("\n"))]
    Violations(Vec<String>),
}

impl Config {
    /// Parses and validates a configuration.
    ///
    /// ```
    /// use consulting_graph::config::{Config, DEFAULT};
    ///
    /// let config = Config::parse(DEFAULT)?;
    /// assert_eq!(config.calls_per_move(), 61);
    ///
    /// let error = Config::parse(&DEFAULT.replace("rounds = 10", "rounds = 0")).unwrap_err();
    /// assert_eq!(error.to_string(), "rounds: must be between 1 and 50, not 0");
    /// # Ok::<(), consulting_graph::config::ConfigError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |it| it.start).min(text.len());
            let before = text.get(..at).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |it| it.chars().count()) + 1;
            ConfigError::Toml { line, column, message: error.message().to_owned() }
        })?;
        let violations = violations(&config);
        if violations.is_empty() { Ok(config) } else { Err(ConfigError::Violations(violations)) }
    }
}

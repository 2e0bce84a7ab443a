//! Names of models.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A provider and one of its models.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModelId {
    /// Name of the provider, such as `anthropic`.
    pub provider: String,
    /// Name of the model as the provider spells it.
    pub model: String,
}

impl ModelId {
    /// Creates an id from the names of the provider and the model.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

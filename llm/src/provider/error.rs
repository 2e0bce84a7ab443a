//! Errors in a provider's configuration.

/// The error returned when a provider cannot be used as configured.
///
/// The messages never contain an API key. They do not contain URLs either, because a URL may contain a key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// There is no provider with this name.
    #[error("unknown provider `{name}`; known providers: {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// The API key is missing.
    #[error("no API key for {provider}; set {variables} or pass the key")]
    NoKey {
        /// Name of the provider.
        provider: &'static str,
        /// The environment variables to set.
        variables: String,
    },
    /// The API key is not a valid header value.
    #[error(
        "the API key for {provider} contains characters that are not allowed in a header; check for a copied line break"
    )]
    InvalidKey {
        /// Name of the provider.
        provider: &'static str,
    },
    /// No model is configured, and the provider has no default.
    #[error("{provider} has no default model; specify a model")]
    NoModel {
        /// Name of the provider.
        provider: &'static str,
    },
    /// No base URL is configured, and the provider has no default.
    #[error("no base URL for {provider}; set {variable} or pass the URL")]
    NoBaseUrl {
        /// Name of the provider.
        provider: &'static str,
        /// The environment variable to set.
        variable: &'static str,
    },
    /// The base URL is invalid.
    #[error("the base URL for {provider} is not a valid http or https URL")]
    InvalidBaseUrl {
        /// Name of the provider.
        provider: &'static str,
    },
    /// A header's name or value is invalid.
    #[error(
        "the header `{name}` for {provider} contains characters that are not allowed in a header"
    )]
    InvalidHeader {
        /// Name of the provider.
        provider: &'static str,
        /// Name of the header.
        name: String,
    },
    /// The provider has no embedding models.
    #[error(
        "{provider} has no embedding models; use openai, google, openrouter, ollama or openai-compatible"
    )]
    NoEmbeddings {
        /// Name of the provider.
        provider: &'static str,
    },
    /// The provider has no Responses API.
    #[error("{provider} has no Responses API; remove the call to `responses_api`")]
    NoResponsesApi {
        /// Name of the provider.
        provider: &'static str,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client for {provider}: {message}")]
    Client {
        /// Name of the provider.
        provider: &'static str,
        /// Description of the cause.
        message: String,
    },
}

crate::error_chain::readable_debug!(SetupError);

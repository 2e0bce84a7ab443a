//! What can be wrong before the first call.

/// A provider that cannot be used as it is set up.
///
/// Its words never hold a key or an address, which may hold one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// There is no provider of this name.
    #[error("there is no provider `{name}`; providers are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The key is missing.
    #[error("{provider} needs a key; set {variables}, or give the key")]
    NoKey {
        /// The provider.
        provider: &'static str,
        /// Where a key is looked for.
        variables: String,
    },
    /// The key cannot be sent.
    #[error("the key of {provider} has characters that no key has; was a line end copied with it?")]
    Key {
        /// The provider.
        provider: &'static str,
    },
    /// No model was named, and there is no default.
    #[error("{provider} has no default model; name one")]
    NoModel {
        /// The provider.
        provider: &'static str,
    },
    /// No address was given, and there is no default.
    #[error("{provider} needs a base URL; set {variable}, or give the URL")]
    NoBaseUrl {
        /// The provider.
        provider: &'static str,
        /// Where one is looked for.
        variable: &'static str,
    },
    /// The address is none.
    #[error("the base URL of {provider} is no http or https address")]
    BaseUrl {
        /// The provider.
        provider: &'static str,
    },
    /// A header cannot be sent.
    #[error("the header `{name}` for {provider} has characters that no header can carry")]
    Header {
        /// The provider.
        provider: &'static str,
        /// The header's name.
        name: String,
    },
    /// The provider does not have the Responses API.
    #[error("{provider} has no Responses API; leave `responses_api` out")]
    NoResponsesApi {
        /// The provider.
        provider: &'static str,
    },
    /// Connections cannot be made at all.
    #[error("no connection to {provider} can be made: {words}")]
    Client {
        /// The provider.
        provider: &'static str,
        /// Why.
        words: String,
    },
}

//! Clients that are identified by JSON Web Tokens.

use std::path::Path;

use async_trait::async_trait;
use axum::http::HeaderMap;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::Deserialize;

use super::{
    authenticator::{AuthError, Authenticator, bearer_token},
    client::{Client, Scope},
    jwks::{Jwks, JwksError},
    ring_provider,
};

/// Accepts JSON Web Tokens in the header `Authorization: Bearer`. The claim `sub` names the owner, and the claim
/// `scope` the permissions: `read`, `write` or `admin`, separated by spaces. Tokens must have an expiry time.
///
/// Each key accepts only the algorithms of its own kind, so a public key cannot be used as a shared secret.
///
/// ```
/// use graph_server::http::{Guard, Jwt, JwtOptions, Scope};
///
/// let options = JwtOptions::default().issuer("https://id.example.org").default_scope(Scope::Write);
/// let tokens = Jwt::with_secret(b"a secret that is at least 32 bytes long", options);
/// let guard = Guard::new().authenticator(tokens);
/// assert!(guard.needs_key());
/// ```
#[derive(Debug)]
pub struct Jwt {
    keys: Keys,
    options: JwtOptions,
}

/// Requirements that tokens must meet. [`Jwt`] shows how they are used.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct JwtOptions {
    /// Required issuer (`iss`).
    pub issuer: Option<String>,
    /// Required audience (`aud`).
    pub audience: Option<String>,
    /// Scope of tokens whose claim `scope` contains none of this server's scopes.
    pub default_scope: Scope,
}

impl Default for JwtOptions {
    fn default() -> Self {
        Self { issuer: None, audience: None, default_scope: Scope::Read }
    }
}

impl JwtOptions {
    /// Requires this issuer.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Requires this audience.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Sets the scope of tokens whose claim `scope` contains none of this server's scopes.
    pub fn default_scope(mut self, scope: Scope) -> Self {
        self.default_scope = scope;
        self
    }
}

enum Keys {
    Secret(DecodingKey),
    Public(Jwks),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret(..)"),
            Self::Public(keys) => f.debug_tuple("Public").field(keys).finish(),
        }
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// Permissions, separated by spaces or as a list.
    #[serde(default)]
    scope: Scopes,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Scopes {
    #[default]
    None,
    Text(String),
    List(Vec<String>),
}

impl Scopes {
    /// Returns the widest of this server's scopes that the claim contains.
    fn widest(&self) -> Option<Scope> {
        let names: Vec<&str> = match self {
            Self::None => Vec::new(),
            Self::Text(text) => text.split_whitespace().collect(),
            Self::List(list) => list.iter().map(String::as_str).collect(),
        };
        names.into_iter().filter_map(|it| it.parse().ok()).max()
    }
}

impl Jwt {
    /// Accepts tokens that are signed with a shared secret: HS256, HS384 or HS512.
    pub fn with_secret(secret: &[u8], options: JwtOptions) -> Self {
        Self::new(Keys::Secret(DecodingKey::from_secret(secret)), options)
    }

    /// Accepts tokens that are signed with a key of a JWKS file: RSA, elliptic curve or Ed25519 keys.
    pub fn with_jwks_file(path: impl AsRef<Path>, options: JwtOptions) -> Result<Self, JwksError> {
        Ok(Self::new(Keys::Public(Jwks::from_file(path.as_ref())?), options))
    }

    /// Accepts tokens that are signed with a key of a JWKS URL. The keys are requested when they are first needed, and
    /// again every hour.
    pub fn with_jwks_url(url: impl Into<String>, options: JwtOptions) -> Self {
        Self::new(Keys::Public(Jwks::from_url(url.into())), options)
    }

    fn new(keys: Keys, options: JwtOptions) -> Self {
        ring_provider::install();
        Self { keys, options }
    }

    /// Returns the key that a token must be signed with, and the algorithms that the key accepts.
    async fn key(&self, id: Option<&str>) -> Result<(DecodingKey, Vec<Algorithm>), AuthError> {
        match &self.keys {
            Keys::Secret(key) => {
                Ok((key.clone(), vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512]))
            }
            Keys::Public(keys) => {
                let unknown = || {
                    AuthError::new("no key of this server matches the key id (`kid`) of the token")
                };
                let jwk = keys.find(id).await.ok_or_else(unknown)?;
                let key = DecodingKey::from_jwk(&jwk).map_err(|_| unknown())?;
                Ok((key, algorithms(&jwk)))
            }
        }
    }

    fn validation(&self, algorithms: Vec<Algorithm>) -> Validation {
        let mut validation = Validation::new(algorithms.first().copied().unwrap_or_default());
        validation.algorithms = algorithms;
        validation.validate_nbf = true;
        validation.validate_aud = self.options.audience.is_some();
        validation.set_required_spec_claims(&["exp", "sub"]);
        if let Some(issuer) = &self.options.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        if let Some(audience) = &self.options.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        validation
    }
}

/// Returns the algorithms that a public key accepts. A symmetric key in a set of public keys accepts none, and neither
/// does a key for encryption.
fn algorithms(jwk: &Jwk) -> Vec<Algorithm> {
    if jwk.common.public_key_use == Some(PublicKeyUse::Encryption) {
        return Vec::new();
    }
    let named = jwk.common.key_algorithm;
    match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => match named {
            None => vec![Algorithm::RS256, Algorithm::RS384, Algorithm::RS512],
            Some(KeyAlgorithm::RS256) => vec![Algorithm::RS256],
            Some(KeyAlgorithm::RS384) => vec![Algorithm::RS384],
            Some(KeyAlgorithm::RS512) => vec![Algorithm::RS512],
            Some(KeyAlgorithm::PS256) => vec![Algorithm::PS256],
            Some(KeyAlgorithm::PS384) => vec![Algorithm::PS384],
            Some(KeyAlgorithm::PS512) => vec![Algorithm::PS512],
            Some(_) => Vec::new(),
        },
        AlgorithmParameters::EllipticCurve(key) => match (&key.curve, named) {
            (EllipticCurve::P256, None | Some(KeyAlgorithm::ES256)) => vec![Algorithm::ES256],
            (EllipticCurve::P384, None | Some(KeyAlgorithm::ES384)) => vec![Algorithm::ES384],
            _ => Vec::new(),
        },
        AlgorithmParameters::OctetKeyPair(_) => match named {
            None | Some(KeyAlgorithm::EdDSA) => vec![Algorithm::EdDSA],
            Some(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

#[async_trait]
impl Authenticator for Jwt {
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Client>, AuthError> {
        let Some(token) = bearer_token(headers) else { return Ok(None) };
        // Other bearer tokens, such as API keys, are not JSON Web Tokens.
        let Ok(header) = decode_header(token) else { return Ok(None) };
        let (key, algorithms) = self.key(header.kid.as_deref()).await?;
        if !algorithms.contains(&header.alg) {
            return Err(AuthError::new(
                "the signature algorithm of the token does not match its key",
            ));
        }
        let validation = self.validation(algorithms);
        let claims = decode::<Claims>(token, &key, &validation).map_err(|error| {
            AuthError::new(match error.kind() {
                ErrorKind::ExpiredSignature => "the token has expired; request a new one",
                ErrorKind::ImmatureSignature => "the token is not valid yet",
                ErrorKind::InvalidIssuer => {
                    "the issuer (`iss`) of the token is not the one that this server requires"
                }
                ErrorKind::InvalidAudience => {
                    "the audience (`aud`) of the token is not the one that this server requires"
                }
                ErrorKind::MissingRequiredClaim(_) => {
                    "the token lacks a required claim: `exp`, `sub`, or a required `iss` or `aud`"
                }
                _ => "the token is malformed, or its signature is invalid",
            })
        })?;
        let scope = claims.claims.scope.widest().unwrap_or(self.options.default_scope);
        Ok(Some(Client::new(claims.claims.sub).with_scope(scope)))
    }
}

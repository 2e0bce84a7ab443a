//! Authentication: identifies the client that sent a request, and its permissions.

mod api_keys;
mod authenticator;
mod client;
mod jwks;
mod jwt;
mod ring_provider;

pub(super) use self::authenticator::bearer_token;
pub use self::{
    api_keys::ApiKeys,
    authenticator::{AuthError, Authenticator},
    client::{Client, Scope, UnknownScope},
    jwks::JwksError,
    jwt::{Jwt, JwtOptions},
};

//! Authentication: which client sent a request, and what the client may do.

mod api_keys;
mod authenticator;
mod client;
mod jwks;
mod jwt;
mod ring_provider;

pub use self::{
    api_keys::ApiKeys,
    authenticator::{AuthError, Authenticator},
    client::{Client, Scope, UnknownScope},
    jwks::JwksError,
    jwt::{Jwt, JwtOptions},
};

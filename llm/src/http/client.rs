//! The client: connections, and how they are encrypted.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use reqwest::{Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

use super::Timeouts;

/// Makes a client for an address.
pub(crate) fn client(base: &Url, timeouts: Timeouts) -> Result<reqwest::Client, ClientError> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(encryption(base.scheme())?)
        .connect_timeout(timeouts.connect)
        .redirect(redirect::Policy::none())
        // Whether a call is made and paid for again is decided in one place, which is not here.
        .retry(reqwest::retry::never())
        .referer(false)
        // Some gateways turn away whoever does not say what it is.
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "-rs/", env!("CARGO_PKG_VERSION")));
    // No proxy leads to a server on this machine.
    let client = if is_loopback(base) { client.no_proxy() } else { client };
    Ok(client.build()?)
}

/// Makes a client for a server that is no model's, which takes the same care: it trusts whom the system trusts, asks
/// once, and goes where it was sent and nowhere else.
pub fn http_client(base: &Url) -> Result<reqwest::Client, ClientError> {
    client(base, Timeouts::default())
}

/// A client that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The system's certificates cannot be used.
    #[error("the system's certificates cannot be used: {0}")]
    Certificates(#[from] rustls::Error),
    /// The client cannot be set up.
    #[error("{0}")]
    Client(#[from] reqwest::Error),
}

fn encryption(scheme: &str) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    if scheme == "http" {
        // A server on this machine has to work where no certificates are installed.
        let builder = builder.with_root_certificates(RootCertStore::empty());
        return Ok(builder.with_no_client_auth());
    }
    // They are read once: it takes longer than all the rest.
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = SYSTEM.get() {
        return Ok(config.clone());
    }
    // The certificates are the system's: a firm's own authority, which its proxy signs with, is known there, and
    // one that is no longer trusted disappears there without a new build of this program.
    let config = builder.with_platform_verifier()?.with_no_client_auth();
    Ok(SYSTEM.get_or_init(|| config).clone())
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|it| it.is_loopback())
    })
}

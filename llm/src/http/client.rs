//! The HTTP client and its TLS configuration.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use reqwest::{Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

use super::Timeouts;

/// Creates a client for a base URL.
pub(crate) fn client(base: &Url, timeouts: Timeouts) -> Result<reqwest::Client, ClientError> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls_config(base.scheme())?)
        .connect_timeout(timeouts.connect)
        .redirect(redirect::Policy::none())
        // Only the retry layer may repeat a call, because every attempt may be billed.
        .retry(reqwest::retry::never())
        .referer(false)
        // Some gateways reject requests without a user agent.
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "-rs/", env!("CARGO_PKG_VERSION")));
    // Requests to this machine bypass the proxy, because the proxy cannot reach a server on this machine.
    let client = if is_loopback(base) { client.no_proxy() } else { client };
    Ok(client.build()?)
}

/// Creates an HTTP client for a server that is not a model provider, with the same settings as for models: it uses
/// the system's certificates, does not retry, and does not follow redirects.
///
/// ```no_run
/// use llm::http_client;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let base = "https://data.example.org/".parse()?;
/// let prices = http_client(&base)?.get(base.join("prices.json")?).send().await?;
/// println!("{}", prices.status());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn http_client(base: &Url) -> Result<reqwest::Client, ClientError> {
    client(base, Timeouts::default())
}

/// The error returned when an HTTP client cannot be created.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The system's certificates cannot be loaded.
    #[error("cannot load the system's certificates: {0}")]
    Certificates(#[from] rustls::Error),
    /// The client's configuration is invalid.
    #[error("{0}")]
    Client(#[from] reqwest::Error),
}

crate::error_chain::readable_debug!(ClientError);

fn tls_config(scheme: &str) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    if scheme == "http" {
        // Plain HTTP needs no certificates, so a server on this machine works even if none are installed.
        let builder = builder.with_root_certificates(RootCertStore::empty());
        return Ok(builder.with_no_client_auth());
    }
    // The certificates are loaded only once, because loading them is the slowest part of creating a client.
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = SYSTEM.get() {
        return Ok(config.clone());
    }
    // Trusts the system's certificates instead of a list that is built into this program. They may include the
    // certificate authority of a company, whose proxy signs certificates with it. System updates remove authorities
    // that are no longer trusted, without a new build of this program.
    let config = builder.with_platform_verifier()?.with_no_client_auth();
    Ok(SYSTEM.get_or_init(|| config).clone())
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|it| it.is_loopback())
    })
}

//! Webhooks: a run that has ended is posted to a URL. This module sends one request; the manager retries and stores.
//!
//! By default, the server refuses to connect to loopback, private and other special addresses, because a client could
//! otherwise reach services inside the server's network. The check is part of name resolution, so a name that resolves
//! to such an address is rejected too.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use uuid::Uuid;

use super::error::{ApiError, ApiResult};

/// Maximum time for one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts runs that have ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Webhooks {
    /// Whether loopback and private addresses are allowed.
    pub(super) allow_private: bool,
}

impl Webhooks {
    fn client(self) -> reqwest::Result<Client> {
        // Fails if the application has already chosen a TLS provider, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(TIMEOUT).redirect(Policy::none()).no_proxy();
        if !self.allow_private {
            client = client.dns_resolver(Arc::new(PublicResolver));
        }
        client.build()
    }

    /// Checks the URL of a webhook.
    pub(super) fn check(self, url: &str) -> ApiResult<()> {
        let invalid =
            |problem: &str| Err(ApiError::invalid(format!("invalid webhook `{url}`: {problem}")));
        let Ok(parsed) = Url::parse(url) else {
            return invalid("it is not an absolute URL");
        };
        if !["http", "https"].contains(&parsed.scheme()) {
            return invalid("only http and https URLs are allowed");
        }
        let Some(host) = parsed.host_str() else { return invalid("it has no host") };
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_private = match address {
            Ok(address) => !is_public(address),
            Err(_) => host.eq_ignore_ascii_case("localhost") || host.ends_with(".localhost"),
        };
        if is_private && !self.allow_private {
            return invalid("loopback and private addresses are not allowed on this server");
        }
        Ok(())
    }

    /// Posts `body`, a JSON text, to `url` once. `id` lets the receiver recognise a webhook that it receives again.
    pub(super) async fn post(self, url: &str, id: Uuid, body: String) -> Result<(), PostError> {
        if self.check(url).is_err() {
            return Err(PostError::Permanent("its address is not allowed".to_owned()));
        }
        let client = self.client().map_err(|error| {
            PostError::Permanent(format!("cannot create the HTTP client of webhooks: {error}"))
        })?;
        let request = client.post(url).header("content-type", "application/json");
        let response = request.header("webhook-id", id.to_string()).body(body).send().await;
        // The URL can contain a secret, so it is not part of the message.
        let response =
            response.map_err(|error| PostError::Temporary(error.without_url().to_string()))?;
        let status = response.status();
        match status.as_u16() {
            _ if status.is_success() => Ok(()),
            code if is_retryable(code) => Err(PostError::Temporary(status.to_string())),
            _ => Err(PostError::Permanent(status.to_string())),
        }
    }
}

/// The reason why a webhook was not delivered.
#[derive(Debug)]
pub(super) enum PostError {
    /// Retries would fail too.
    Permanent(String),
    /// A later attempt may succeed.
    Temporary(String),
}

/// Returns whether a request that failed with this status may succeed when it is retried.
fn is_retryable(status: u16) -> bool {
    status >= 500 || status == 408 || status == 429
}

/// Resolves names to public addresses only.
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.iter().any(|it| !is_public(it.ip())) {
                let problem = format!("`{}` resolves to a private address", name.as_str());
                return Err(problem.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Returns whether an address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || address.is_broadcast()
                || address.is_multicast()
                || address.is_documentation()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0)
                || (a == 198 && (b == 18 || b == 19)))
        }
        // Only global unicast addresses, without 6to4 and NAT64 addresses, which can contain a private IPv4 address.
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            (0x2000..0x4000).contains(&first)
                && first != 0x2002
                && !(first == 0x2001 && (second == 0x0db8 || second < 0x0200))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        let special = [
            "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
            "100.64.0.1", "::1", "::", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::",
            "64:ff9b::7f00:1",
        ];
        for address in special {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "93.184.216.34", "2606:4700::1111"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}

//! Identifies clients by their address.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::request::Parts,
};

/// Identifies a client: an IPv4 address, or the /64 network of an IPv6 address, because one customer usually has a
/// whole /64 network. Extracted from requests; all requests whose sender is unknown count as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNetwork(u128);

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ClientNetwork {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|it| it.0.ip());
        Ok(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).into())
    }
}

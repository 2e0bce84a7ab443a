//! Identifies clients by their address.

use std::net::IpAddr;

/// Identifies a client: an IPv4 address, or the /64 network of an IPv6 address, because one customer usually has a
/// whole /64 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientNetwork(u128);

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }
}

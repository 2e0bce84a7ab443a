//! Ports for the programs that the tests start.

use std::net::{Ipv4Addr, TcpListener};

/// Returns free ports. They are below the range from which the system assigns ports, so that no other test can receive
/// them before a program binds them, or while the program restarts.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let mut listeners = Vec::new();
    while listeners.len() < count {
        let port = fastrand::u16(10_000..32_000);
        // Bound until all ports are chosen, so that no port is chosen twice.
        listeners.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    let port = |it: &TcpListener| it.local_addr().expect("the listener has an address").port();
    listeners.iter().map(port).collect()
}

//! Ports for the programs that the tests start.

use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    sync::{Mutex, PoisonError},
};

/// The ports that this process has chosen so far. It keeps each of them bound for UDP, so that no other test program
/// chooses it. The programs that the tests start use TCP.
static CHOSEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns a free port, as [`free_ports`] does.
pub fn free_port() -> u16 {
    free_ports(1)[0]
}

/// Returns free ports. They are below the range of ephemeral ports, so that the system does not assign them to a
/// connection before a program binds them, or while the program restarts. No port is returned twice, not even to
/// another test program that runs at the same time.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = Vec::with_capacity(count);
    while ports.len() < count {
        let address = (Ipv4Addr::LOCALHOST, fastrand::u16(10_000..32_000));
        let Ok(reserved) = UdpSocket::bind(address) else { continue };
        if TcpListener::bind(address).is_ok() {
            chosen.push(reserved);
            ports.push(address.1);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn chosen_ports_are_distinct() {
        let ports = [free_ports(20), free_ports(20)].concat();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 40);
    }

    #[test]
    fn chosen_port_is_reserved_and_can_be_bound() {
        let address = (Ipv4Addr::LOCALHOST, free_port());
        assert!(UdpSocket::bind(address).is_err(), "another test program could choose it");
        TcpListener::bind(address).expect("a program can listen on it");
    }
}

//! Ports for the programs that the tests start.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, TcpListener},
    sync::{LazyLock, Mutex, PoisonError},
};

/// The ports that this process has chosen so far.
static CHOSEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Returns a free port, as [`free_ports`] does.
pub fn free_port() -> u16 {
    free_ports(1)[0]
}

/// Returns free ports. They are below the range from which the system assigns ports, so that no connection can receive
/// them before a program binds them, or while the program restarts. No port is returned twice.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = Vec::with_capacity(count);
    while ports.len() < count {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && chosen.insert(port) {
            ports.push(port);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ() {
        let ports = [free_ports(20), free_ports(20)].concat();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 40);
    }
}

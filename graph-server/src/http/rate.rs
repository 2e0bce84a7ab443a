//! How often a client may ask.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The clients of the last minutes are remembered, this many at most.
const CLIENTS: usize = 10_000;

/// So many requests a minute for each client's address, and as many at once.
#[derive(Debug)]
pub(super) struct Rate {
    per_minute: u32,
    clients: Mutex<HashMap<Network, Bucket>>,
}

/// Who counts as one client: an address, or the half of one that names a network where a network has all the other
/// half to itself.
type Network = u128;

fn network(address: IpAddr) -> Network {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rate {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute, clients: Mutex::default() }
    }

    /// Counts a request. Where it is one too many, says how long to wait.
    pub(super) fn take(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let (client, most) = (network(client), f64::from(self.per_minute.max(1)));
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS && !clients.contains_key(&client) {
            // Whoever was silent for a minute has all its requests back.
            clients.retain(|_, it| now.duration_since(it.at) < Duration::from_secs(60));
            // Strangers do not keep others out: whoever was silent longest is forgotten.
            if clients.len() >= CLIENTS
                && let Some(oldest) = clients.iter().min_by_key(|it| it.1.at).map(|it| *it.0)
            {
                clients.remove(&oldest);
            }
        }
        let bucket = clients.entry(client).or_insert(Bucket { left: most, at: now });
        let back = now.duration_since(bucket.at).as_secs_f64() * most / 60.0;
        *bucket = Bucket { left: (bucket.left + back).min(most), at: now };
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) * 60.0 / most));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        time::{Duration, Instant},
    };

    use super::{CLIENTS, Rate};

    #[test]
    fn a_client_has_its_requests_back_after_a_while() {
        let (rate, start) = (Rate::new(60), Instant::now());
        let [a, b] = [[1, 1, 1, 1], [2, 2, 2, 2]].map(|it| IpAddr::from(Ipv4Addr::from(it)));
        for _ in 0..60 {
            assert_eq!(rate.take(a, start), Ok(()));
        }
        let wait = rate.take(a, start).unwrap_err();
        assert_eq!(wait, Duration::from_secs(1));
        assert_eq!(rate.take(b, start), Ok(()));
        assert_eq!(rate.take(a, start + wait), Ok(()));
        assert!(rate.take(a, start + wait).is_err());
    }

    #[test]
    fn strangers_do_not_fill_memory() {
        let (rate, start) = (Rate::new(1), Instant::now());
        let client = |idx: usize| IpAddr::from(Ipv4Addr::from(idx as u32));
        for idx in 0..CLIENTS {
            assert_eq!(rate.take(client(idx), start), Ok(()));
        }
        assert_eq!(rate.take(client(CLIENTS), start), Ok(()), "nobody is kept out");
        assert_eq!(rate.clients.lock().unwrap().len(), CLIENTS);
        assert_eq!(rate.take(client(CLIENTS + 1), start + Duration::from_secs(61)), Ok(()));
        assert_eq!(rate.clients.lock().unwrap().len(), 1);
        let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|it| it.parse().unwrap());
        assert!(rate.take(a, start).is_ok() && rate.take(b, start).is_err(), "one network");
    }
}

//! Limits the request rate of each client address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::client_network::ClientNetwork;

/// Maximum number of clients that are tracked at the same time.
const MAX_CLIENTS: usize = 10_000;

/// Token buckets that allow each client `per_minute` requests per minute, and bursts of the same size.
#[derive(Debug)]
pub(super) struct RateLimiter {
    per_minute: u32,
    clients: Mutex<HashMap<ClientNetwork, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    updated_at: Instant,
}

impl RateLimiter {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute, clients: Mutex::default() }
    }

    /// Counts a request. If the request exceeds the limit, returns the time to wait.
    pub(super) fn check(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let (client, capacity) = (ClientNetwork::from(client), f64::from(self.per_minute.max(1)));
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&client) {
            // After a minute without requests a bucket is full again, so it can be removed.
            clients.retain(|_, it| now.duration_since(it.updated_at) < Duration::from_secs(60));
            // If all clients are recent, the least recently seen client is evicted, so that new clients are never
            // locked out.
            if clients.len() >= MAX_CLIENTS
                && let Some(oldest) =
                    clients.iter().min_by_key(|it| it.1.updated_at).map(|it| *it.0)
            {
                clients.remove(&oldest);
            }
        }
        let bucket = clients.entry(client).or_insert(Bucket { tokens: capacity, updated_at: now });
        let refill = now.duration_since(bucket.updated_at).as_secs_f64() * capacity / 60.0;
        *bucket = Bucket { tokens: (bucket.tokens + refill).min(capacity), updated_at: now };
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) * 60.0 / capacity));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        time::{Duration, Instant},
    };

    use super::{MAX_CLIENTS, RateLimiter};

    #[test]
    fn limits_refill_over_time() {
        let (rate, start) = (RateLimiter::new(60), Instant::now());
        let [a, b] = [[1, 1, 1, 1], [2, 2, 2, 2]].map(|it| IpAddr::from(Ipv4Addr::from(it)));
        for _ in 0..60 {
            assert_eq!(rate.check(a, start), Ok(()));
        }
        let wait = rate.check(a, start).unwrap_err();
        assert_eq!(wait, Duration::from_secs(1));
        assert_eq!(rate.check(b, start), Ok(()));
        assert_eq!(rate.check(a, start + wait), Ok(()));
        assert!(rate.check(a, start + wait).is_err());
    }

    #[test]
    fn the_number_of_tracked_clients_is_bounded() {
        let (rate, start) = (RateLimiter::new(1), Instant::now());
        let client = |idx: usize| IpAddr::from(Ipv4Addr::from(idx as u32));
        for idx in 0..MAX_CLIENTS {
            assert_eq!(rate.check(client(idx), start), Ok(()));
        }
        assert_eq!(rate.check(client(MAX_CLIENTS), start), Ok(()), "new clients are accepted");
        assert_eq!(rate.clients.lock().unwrap().len(), MAX_CLIENTS);
        assert_eq!(rate.check(client(MAX_CLIENTS + 1), start + Duration::from_secs(61)), Ok(()));
        assert_eq!(rate.clients.lock().unwrap().len(), 1);
        let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|it| it.parse().unwrap());
        assert!(
            rate.check(a, start).is_ok() && rate.check(b, start).is_err(),
            "the same /64 network"
        );
    }
}

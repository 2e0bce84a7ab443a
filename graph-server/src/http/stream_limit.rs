//! Limits the number of concurrent event streams, so that no client can take all of them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{ClientNetwork, Metrics, Problem};

/// Limits the number of concurrent event streams. If the limit is reached, a new stream replaces the oldest stream of
/// the client with the most streams. The new stream is rejected instead if its client would then have more streams than
/// the client whose stream is replaced.
#[derive(Debug, Clone)]
pub struct StreamLimit {
    limit: usize,
    open: Arc<Mutex<OpenStreams>>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct OpenStreams {
    next_id: u64,
    /// Open streams, oldest first.
    streams: BTreeMap<u64, OpenStream>,
}

#[derive(Debug)]
struct OpenStream {
    client: ClientNetwork,
    replaced: Arc<Notify>,
}

/// The permit of an open stream. Dropping it releases the permit.
#[derive(Debug)]
pub(super) struct StreamPermit {
    id: u64,
    limit: StreamLimit,
    /// Notified when another stream replaces this one.
    pub(super) replaced: Arc<Notify>,
}

impl StreamLimit {
    /// Creates a limit that allows at most `limit` concurrent streams.
    pub fn new(limit: usize, metrics: Metrics) -> Self {
        Self { limit, open: Arc::default(), metrics }
    }

    /// Opens a stream of a client. Fails if the limit is reached and no stream can be replaced.
    pub(super) fn acquire(&self, client: ClientNetwork) -> Result<StreamPermit, Problem> {
        let mut open = self.lock();
        if open.streams.len() >= self.limit && !open.replace_for(client) {
            let message = "too many event streams are open; close one or retry later";
            return Err(Problem::too_many(message, 5));
        }
        let (id, replaced) = (open.next_id, Arc::<Notify>::default());
        open.next_id += 1;
        open.streams.insert(id, OpenStream { client, replaced: replaced.clone() });
        drop(open);
        self.metrics.streams.inc();
        Ok(StreamPermit { id, limit: self.clone(), replaced })
    }

    fn lock(&self) -> MutexGuard<'_, OpenStreams> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStreams {
    /// Ends the oldest stream of the client with the most streams, to make room for a new stream of `client`. Does
    /// nothing if `client` would then have more streams than the other client. Returns whether a stream was ended.
    fn replace_for(&mut self, client: ClientNetwork) -> bool {
        let mut counts = HashMap::<ClientNetwork, usize>::new();
        for stream in self.streams.values() {
            *counts.entry(stream.client).or_default() += 1;
        }
        let n_own = counts.get(&client).copied().unwrap_or(0);
        let heaviest = counts.into_iter().max_by_key(|it| it.1).filter(|it| it.1 > n_own + 1);
        let Some((heaviest, _)) = heaviest else { return false };
        let oldest = self.streams.iter().find(|it| it.1.client == heaviest).map(|it| *it.0);
        let replaced = oldest.and_then(|it| self.streams.remove(&it));
        replaced.inspect(|it| it.replaced.notify_one()).is_some()
    }
}

impl StreamPermit {
    pub(super) fn metrics(&self) -> &Metrics {
        &self.limit.metrics
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.limit.lock().streams.remove(&self.id);
        self.limit.metrics.streams.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(number: u8) -> ClientNetwork {
        IpAddr::from(Ipv4Addr::new(10, 0, 0, number)).into()
    }

    fn is_replaced(permit: &StreamPermit) -> bool {
        let notified = std::pin::pin!(permit.replaced.notified());
        // `enable` returns whether a notification was already sent, and consumes it.
        notified.enable()
    }

    #[test]
    fn streams_are_shared_fairly_among_clients() {
        let limit = StreamLimit::new(4, Metrics::default());
        let heavy: Vec<_> = (0..4).map(|_| limit.acquire(client(1)).unwrap()).collect();
        assert!(limit.acquire(client(1)).is_err());
        let _light = [limit.acquire(client(2)).unwrap(), limit.acquire(client(2)).unwrap()];
        let ended: Vec<bool> = heavy.iter().map(is_replaced).collect();
        assert_eq!(ended, [true, true, false, false]);
        // Both clients have two streams, so neither of them gets another one.
        assert!(limit.acquire(client(1)).is_err() && limit.acquire(client(2)).is_err());
        assert!(limit.acquire(client(3)).is_ok());
    }

    #[test]
    fn closed_streams_do_not_count() {
        let limit = StreamLimit::new(1, Metrics::default());
        let stream = limit.acquire(client(1)).unwrap();
        assert!(limit.acquire(client(2)).is_err(), "the client keeps its only stream");
        drop(stream);
        assert!(limit.acquire(client(2)).is_ok());
        assert!(limit.lock().streams.is_empty());
    }
}

//! Decides which connections stay open, so that no client can lock out others.
//!
//! The number of connections is limited in total and per client. A new connection beyond a limit replaces the
//! connection that has waited longest for a request: a connection of the same client if that client has reached its
//! limit, otherwise one of the client with the most connections. If all candidates are answering requests, the new
//! connection gets a reserved slot, on which the server answers only health probes. If no reserved slot is free, the
//! new connection replaces the oldest one of the client that has the most reserved slots.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Notify, watch};

use crate::http::ClientNetwork;

/// Number of reserved slots.
const RESERVED: usize = 64;

/// The open connections of a server.
#[derive(Debug)]
pub(super) struct Admission {
    max_total: usize,
    max_per_client: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<u64, Entry>,
    /// Connections that wait for a request, with the time since which they wait.
    idle: BTreeMap<(ClientNetwork, u64), u64>,
    /// Number of connections of each client, without those in reserved slots.
    n_open: HashMap<ClientNetwork, usize>,
    /// Connections in reserved slots, oldest first.
    reserved: BTreeMap<u64, (ClientNetwork, Arc<Notify>)>,
    /// Logical clock, which also numbers the connections.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    client: ClientNetwork,
    /// Time at which the last request was answered. `None` while a request is being answered.
    idle_since: Option<u64>,
    replaced: Arc<Notify>,
}

/// An open connection. It counts towards the limits until it is dropped or replaced.
#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    admission: Arc<Admission>,
    /// Number of requests that are being answered. Changed only while the table is locked.
    n_requests: AtomicUsize,
    /// Whether the connection has a reserved slot.
    pub(super) is_reserved: bool,
    /// Notified when another connection replaces this one.
    pub(super) replaced: Arc<Notify>,
    /// Announces the shutdown of the server, which waits until all receivers are dropped.
    pub(super) closing: watch::Receiver<bool>,
}

/// Marks a connection as answering a request, so that it is not replaced. The response holds a clone until it has been
/// sent, and a WebSocket holds one until it is closed.
#[derive(Debug, Clone)]
pub(crate) struct RequestPermit(
    #[expect(dead_code, reason = "the request ends when the value is dropped")] Arc<ActiveRequest>,
);

#[derive(Debug)]
struct ActiveRequest(Arc<Connection>);

impl Admission {
    /// Creates an admission without connections. `max_total` does not include the reserved slots.
    pub(super) fn new(max_total: usize, max_per_client: usize) -> Arc<Self> {
        Arc::new(Self { max_total, max_per_client, table: Mutex::default() })
    }

    /// Admits a connection. Replaces another one if necessary.
    pub(super) fn admit(
        self: &Arc<Self>,
        client: ClientNetwork,
        closing: watch::Receiver<bool>,
    ) -> Arc<Connection> {
        let replaced = Arc::<Notify>::default();
        let mut table = self.lock();
        let id = table.tick();
        let n_own = table.n_open.get(&client).copied().unwrap_or(0);
        let has_room = if n_own >= self.max_per_client {
            table.replace_idle(client)
        } else if table.entries.len() >= self.max_total {
            let victim = table.heaviest_idle_client(n_own);
            victim.is_some_and(|it| table.replace_idle(it))
        } else {
            true
        };
        if has_room {
            table.idle.insert((client, id), id);
            *table.n_open.entry(client).or_default() += 1;
            let entry = Entry { client, idle_since: Some(id), replaced: replaced.clone() };
            table.entries.insert(id, entry);
        } else {
            if table.reserved.len() >= RESERVED {
                table.replace_reserved();
            }
            table.reserved.insert(id, (client, replaced.clone()));
        }
        drop(table);
        Arc::new(Connection {
            id,
            admission: self.clone(),
            n_requests: AtomicUsize::new(0),
            is_reserved: !has_room,
            replaced,
            closing,
        })
    }

    /// Locks the table. A poisoned lock is safe to use, because no method panics between two changes.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Returns the client's connection that has waited longest for a request.
    fn longest_idle(&self, client: ClientNetwork) -> Option<u64> {
        self.idle.range((client, 0)..=(client, u64::MAX)).next().map(|it| *it.1)
    }

    /// Returns the client with the most connections among those that have an idle connection and at least `min`
    /// connections in total.
    fn heaviest_idle_client(&self, min: usize) -> Option<ClientNetwork> {
        let clients = self.n_open.iter().filter(|it| *it.1 >= min);
        let idle = clients.filter(|it| self.longest_idle(*it.0).is_some());
        idle.max_by_key(|it| it.1).map(|it| *it.0)
    }

    /// Replaces the client's connection that has waited longest for a request. Returns whether a connection was
    /// replaced.
    fn replace_idle(&mut self, client: ClientNetwork) -> bool {
        let entry = self.longest_idle(client).and_then(|id| self.remove(id));
        entry.inspect(|it| it.replaced.notify_one()).is_some()
    }

    /// Replaces the oldest connection in a reserved slot of the client that has the most of these slots.
    fn replace_reserved(&mut self) {
        let mut counts = HashMap::<ClientNetwork, usize>::new();
        for (client, _) in self.reserved.values() {
            *counts.entry(*client).or_default() += 1;
        }
        let max = counts.values().copied().max();
        let of_heaviest = |it: &(&u64, &(ClientNetwork, _))| counts.get(&it.1.0).copied() == max;
        let oldest = self.reserved.iter().find(of_heaviest).map(|it| *it.0);
        if let Some((_, replaced)) = oldest.and_then(|id| self.reserved.remove(&id)) {
            replaced.notify_one();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(since) = entry.idle_since {
            self.idle.remove(&(entry.client, since));
        }
        if let Some(n_open) = self.n_open.get_mut(&entry.client) {
            *n_open -= 1;
            if *n_open == 0 {
                self.n_open.remove(&entry.client);
            }
        }
        Some(entry)
    }
}

impl Connection {
    /// Marks the connection as answering a request.
    pub(super) fn begin_request(self: &Arc<Self>) -> RequestPermit {
        let mut table = self.admission.lock();
        self.n_requests.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = table.entries.get_mut(&self.id)
            && let Some(since) = entry.idle_since.take()
        {
            let client = entry.client;
            table.idle.remove(&(client, since));
        }
        drop(table);
        RequestPermit(Arc::new(ActiveRequest(self.clone())))
    }

    /// Returns whether a request is being answered.
    pub(super) fn has_requests(&self) -> bool {
        self.n_requests.load(Ordering::Relaxed) > 0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut table = self.0.admission.lock();
        let is_last = self.0.n_requests.fetch_sub(1, Ordering::Relaxed) == 1;
        let now = table.tick();
        if is_last && let Some(entry) = table.entries.get_mut(&self.0.id) {
            entry.idle_since = Some(now);
            let client = entry.client;
            table.idle.insert((client, now), self.0.id);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = self.admission.lock();
        table.reserved.remove(&self.id);
        table.remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(number: u8) -> ClientNetwork {
        IpAddr::from(Ipv4Addr::new(10, 0, 0, number)).into()
    }

    struct Server {
        admission: Arc<Admission>,
        closing: watch::Sender<bool>,
    }

    impl Server {
        fn new(max_total: usize, max_per_client: usize) -> Self {
            let admission = Admission::new(max_total, max_per_client);
            Self { admission, closing: watch::Sender::new(false) }
        }

        fn admit(&self, number: u8) -> Arc<Connection> {
            self.admission.admit(client(number), self.closing.subscribe())
        }

        fn n_open(&self) -> usize {
            self.admission.lock().entries.len()
        }
    }

    fn is_replaced(connection: &Connection) -> bool {
        let notified = std::pin::pin!(connection.replaced.notified());
        // `enable` returns whether a notification was already sent, and consumes it.
        notified.enable()
    }

    #[test]
    fn a_client_at_its_limit_replaces_its_own_longest_idle_connection() {
        let server = Server::new(100, 2);
        let (first, second, other) = (server.admit(1), server.admit(1), server.admit(2));
        drop(first.begin_request());
        let third = server.admit(1);
        assert!(!third.is_reserved && is_replaced(&second));
        assert!(!is_replaced(&first) && !is_replaced(&other));
        // The replaced connection no longer counts, and its end changes nothing.
        drop(second);
        assert_eq!(server.n_open(), 3);
    }

    #[test]
    fn a_full_server_replaces_an_idle_connection_of_the_heaviest_client() {
        let server = Server::new(4, 3);
        let light = server.admit(1);
        let heavy: Vec<_> = (0..3).map(|_| server.admit(2)).collect();
        let new = server.admit(3);
        assert!(!new.is_reserved && is_replaced(&heavy[0]));
        assert!(!is_replaced(&light));
        assert_eq!(server.n_open(), 4);
    }

    #[test]
    fn a_heavy_client_does_not_replace_connections_of_light_clients() {
        let server = Server::new(3, 3);
        let heavy = [server.admit(1), server.admit(1)];
        let requests = heavy.each_ref().map(Connection::begin_request);
        let light = server.admit(2);
        assert!(server.admit(1).is_reserved);
        assert!(!is_replaced(&light));
        drop(requests);
        assert!(!server.admit(1).is_reserved);
    }

    #[test]
    fn connections_that_answer_requests_are_not_replaced() {
        let server = Server::new(100, 1);
        let busy = server.admit(1);
        let request = busy.begin_request();
        let again = request.clone();
        drop(request);
        let reserved = server.admit(1);
        assert!(reserved.is_reserved && !is_replaced(&busy));
        drop(again);
        assert!(!server.admit(1).is_reserved && is_replaced(&busy));
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_one_in_the_reserved_slots() {
        let server = Server::new(1, 1);
        let busy = server.admit(1);
        let _request = busy.begin_request();
        let mut reserved: Vec<_> = (0..RESERVED).map(|_| server.admit(1)).collect();
        assert!(reserved.iter().all(|it| it.is_reserved && !is_replaced(it)));
        reserved.push(server.admit(1));
        assert!(is_replaced(&reserved[0]) && !is_replaced(&reserved[1]));
        drop(reserved);
        assert!(server.admission.lock().reserved.is_empty());
    }

    #[test]
    fn a_client_that_floods_the_reserved_slots_does_not_replace_a_probe_of_another_client() {
        let server = Server::new(1, 1);
        let busy = server.admit(1);
        let _request = busy.begin_request();
        let flood: Vec<_> = (1..RESERVED).map(|_| server.admit(1)).collect();
        let probe = server.admit(2);
        let more: Vec<_> = (0..2 * RESERVED).map(|_| server.admit(1)).collect();
        assert!(probe.is_reserved && !is_replaced(&probe));
        assert!(flood.iter().all(|it| is_replaced(it)));
        assert_eq!(more.iter().filter(|it| !is_replaced(it)).count(), RESERVED - 1);
    }

    #[test]
    fn closed_connections_do_not_count() {
        let server = Server::new(100, 2);
        let connection = server.admit(1);
        let request = connection.begin_request();
        drop(connection);
        assert_eq!(server.n_open(), 1, "a WebSocket counts while it is open");
        drop(request);
        assert_eq!(server.n_open(), 0);
        assert!(server.admission.lock().n_open.is_empty());
        assert!(server.admission.lock().idle.is_empty());
    }
}

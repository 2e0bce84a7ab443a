//! The host's end of the channel to one guest.
//!
//! One tokio task reads and one writes. Each request has its own queue of incoming messages. The reader never blocks,
//! so a slow consumer of one request does not delay other requests. When a request is made, it gets a limit on the
//! messages that may accumulate for it. A guest that sends more violates the protocol.

mod outbox;
mod window;

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::mpsc,
    task::JoinSet,
};

pub(crate) use self::window::{Incoming, ReceiveWindow};
use self::{
    outbox::Outbox,
    window::{OpenRequest, OpenRequests},
};
use crate::{
    backend::interface::Channel,
    protocol::{
        self, Assembler, Frame, Kind, ProtocolError,
        frame::{self, ReadError},
        from_guest::{self, GuestMessage},
        message::{Fault, FaultCode, GuestCommand, GuestHello, HostHello},
    },
    sync::lock,
};

/// Time limit for commands that should complete immediately.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// The channel to one guest. Cheap to clone; dropping the last clone closes the channel.
#[derive(Clone)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// The reader and writer tasks, which are aborted when the session is dropped.
    #[expect(dead_code, reason = "held for its Drop, which aborts the tasks")]
    tasks: Arc<JoinSet<()>>,
}

struct Shared {
    outbox: Outbox,
    // This is a std mutex because it is held only briefly and never across an await.
    requests: Mutex<OpenRequests>,
    next: AtomicU64,
    closed: OnceLock<CloseReason>,
    /// Whether the guest is paused and therefore not expected to read.
    is_paused: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    ChannelClosed,
    Protocol(ProtocolError),
}

#[derive(Debug)]
pub(crate) enum RequestError {
    Closed(CloseReason),
    Fault(Fault),
    Timeout(Duration),
}

impl From<ProtocolError> for RequestError {
    fn from(error: ProtocolError) -> Self {
        Self::Closed(CloseReason::Protocol(error))
    }
}

impl Session {
    /// Opens a session by performing the handshake with the guest, which may take at most `timeout`.
    pub(crate) async fn open(
        channel: Box<dyn Channel>,
        timeout: Duration,
    ) -> Result<(Self, GuestHello), RequestError> {
        let (mut reader, mut writer) = tokio::io::split(channel);
        let handshake = handshake(&mut reader, &mut writer);
        let hello = tokio::time::timeout(timeout, handshake)
            .await
            .map_err(|_| RequestError::Timeout(timeout))??;
        let (outbox, writing) = Outbox::new(writer);
        let shared = Arc::new(Shared {
            outbox,
            requests: Mutex::default(),
            next: AtomicU64::new(1),
            closed: OnceLock::new(),
            is_paused: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(writing);
        tasks.spawn(read_all(reader, shared.clone()));
        Ok((Self { shared, tasks: Arc::new(tasks) }, hello))
    }

    /// Sends a command and waits for its reply.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        command: &GuestCommand,
        timeout: Duration,
    ) -> Result<T, RequestError> {
        let answer = async {
            let mut exchange = self.start(command, ReceiveWindow::default()).await?;
            exchange.next().await.map_err(RequestError::Closed)
        };
        let answer = tokio::time::timeout(timeout, answer);
        match answer.await.map_err(|_| RequestError::Timeout(timeout))?? {
            Incoming::Reply(payload) => Ok(self.decode_reply(&payload)?),
            Incoming::Failure(fault) => Err(RequestError::Fault(fault)),
            // No other message can arrive, because the receive window of this request is empty.
            _ => Err(ProtocolError::UnexpectedMessage("a message before the reply").into()),
        }
    }

    /// Decodes a reply. A malformed reply closes the session.
    pub(crate) fn decode_reply<T: DeserializeOwned>(
        &self,
        payload: &[u8],
    ) -> Result<T, ProtocolError> {
        from_guest::reply(payload)
            .inspect_err(|error| self.shared.close(CloseReason::Protocol(error.clone())))
    }

    /// Sends a command for which the guest may send several messages, up to the limits of `window`. Fails without
    /// sending the command if the guest would refuse it.
    pub(crate) async fn start(
        &self,
        command: &GuestCommand,
        window: ReceiveWindow,
    ) -> Result<Exchange, RequestError> {
        let refused = |error| RequestError::Fault(Fault::new(FaultCode::Refused, error));
        let payload = protocol::encode(command).map_err(refused)?;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (queue, incoming) = mpsc::unbounded_channel();
        self.shared.requests().open.insert(id, OpenRequest::new(queue, window));
        let exchange = Exchange { session: self.clone(), id, incoming, is_finished: false };
        // Check this only after the queue is registered. `close` first sets the reason and then removes all queues, so
        // a queue that is registered after that would never be removed.
        if let Some(closed) = self.closed() {
            return Err(RequestError::Closed(closed));
        }
        // If the guest does not read, the outbox stays full, so the wait must be limited.
        let queued = self.shared.outbox.put(Kind::Request, id, payload);
        let queued = tokio::time::timeout(REPLY_TIMEOUT, queued);
        queued.await.map_err(|_| RequestError::Timeout(REPLY_TIMEOUT))?;
        Ok(exchange)
    }

    /// Replies to a host call. The host must keep the reply in memory until the guest reads it. Therefore a guest that
    /// is not paused and reads nothing for [`REPLY_TIMEOUT`] violates the protocol.
    pub(crate) async fn reply(&self, id: u64, result: Result<Vec<u8>, Fault>) {
        // Release the call first, because the guest may make another call as soon as it receives the reply.
        self.shared.requests().finish_host_call(id);
        let (kind, payload) = match result {
            Ok(payload) => (Kind::Reply, payload),
            Err(fault) => (Kind::Failure, protocol::encode(&fault).unwrap_or_default()),
        };
        let outbox = &self.shared.outbox;
        let mut queued = pin!(outbox.put(kind, id, payload));
        let mut written = outbox.bytes_written();
        while tokio::time::timeout(REPLY_TIMEOUT, &mut queued).await.is_err() {
            if outbox.bytes_written() == written && !self.is_paused() {
                return self.close_for_violation("it does not read its replies");
            }
            written = outbox.bytes_written();
        }
    }

    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.shared.is_paused.store(is_paused, Ordering::Relaxed);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.shared.is_paused.load(Ordering::Relaxed)
    }

    /// Returns the reason why the session is closed, or `None` if it is open.
    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.shared.closed.get().cloned()
    }

    /// Closes the session because of a protocol violation by the guest, which `rule` describes.
    pub(crate) fn close_for_violation(&self, rule: &'static str) {
        self.shared.close(CloseReason::Protocol(ProtocolError::UnexpectedMessage(rule)));
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("closed", &self.shared.closed.get()).finish_non_exhaustive()
    }
}

/// A request in flight. Dropping this value before the reply arrives cancels the request.
#[derive(Debug)]
pub(crate) struct Exchange {
    session: Session,
    id: u64,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    is_finished: bool,
}

impl Exchange {
    /// Returns the next message for the request.
    pub(crate) async fn next(&mut self) -> Result<Incoming, CloseReason> {
        match self.incoming.recv().await {
            Some(incoming) => {
                self.is_finished |= matches!(incoming, Incoming::Reply(_) | Incoming::Failure(_));
                Ok(incoming)
            }
            None => Err(self.session.closed().unwrap_or(CloseReason::ChannelClosed)),
        }
    }

    /// Returns the id of the request.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns a handle that can grant the guest credit for more events of this request.
    pub(crate) fn credit(&self) -> Credit {
        Credit { session: self.session.clone(), id: self.id }
    }

    /// Allows the guest to make one more host call, because an earlier one has completed.
    pub(crate) fn release_host_call(&self) {
        if let Some(request) = self.session.shared.requests().open.get_mut(&self.id) {
            request.window.host_calls += 1;
        }
    }
}

/// Grants the guest credit for more events of a request.
#[derive(Clone, Debug)]
pub(crate) struct Credit {
    session: Session,
    id: u64,
}

impl Credit {
    /// Allows the guest to send `events` more events.
    ///
    /// The credit message is queued in a separate tokio task, so that the caller does not wait for a guest that does
    /// not read. The window grows only when that message is queued, so only a few of these tasks can be waiting at
    /// once. They end when the session does.
    pub(crate) fn grant(&self, events: u64) {
        let (shared, id) = (self.session.shared.clone(), self.id);
        let payload = protocol::encode(&events).unwrap_or_default();
        tokio::spawn(async move {
            let credit = || {
                shared.requests().open.get_mut(&id)?.window.events += events;
                Some(frame::encode(Kind::Credit, id, &payload))
            };
            shared.outbox.put_if_wanted(credit).await;
        });
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.session.shared.requests().cancel(self.id);
        if self.is_finished {
            return;
        }
        self.session.shared.outbox.put_without_waiting(frame::encode(Kind::Cancel, self.id, &[]));
    }
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, OpenRequests> {
        lock(&self.requests)
    }

    fn close(&self, reason: CloseReason) {
        let _ = self.closed.set(reason);
        self.requests().open.clear();
    }

    /// Delivers a message to its request. A message for an unknown request counts as late and is not an error.
    fn deliver(&self, message: Frame) -> Result<(), ProtocolError> {
        let id = from_guest::request_id(&message)?;
        if !self.requests().admit(id, &message)? {
            return Ok(());
        }
        // The message is decoded only now, after the window has admitted it.
        let incoming = match from_guest::parse(message)? {
            GuestMessage::Hello(_) => {
                return Err(ProtocolError::UnexpectedMessage("a second hello message"));
            }
            GuestMessage::Reply(_, payload) => Incoming::Reply(payload),
            GuestMessage::Failure(_, fault) => Incoming::Failure(fault),
            GuestMessage::Event(_, event) => Incoming::Event(event),
            GuestMessage::Output(_, stream, bytes) => Incoming::Output(stream, bytes),
            GuestMessage::HostCall(call_id, call) => Incoming::HostCall(call_id, call),
        };
        let is_last = matches!(incoming, Incoming::Reply(_) | Incoming::Failure(_));
        let mut requests = self.requests();
        if let Some(request) = requests.open.get(&id) {
            let _ = request.queue.send(incoming);
        }
        if is_last {
            requests.remove(id);
        }
        Ok(())
    }
}

async fn handshake(
    reader: &mut ReadHalf<Box<dyn Channel>>,
    writer: &mut WriteHalf<Box<dyn Channel>>,
) -> Result<GuestHello, RequestError> {
    let closed = |_| RequestError::Closed(CloseReason::ChannelClosed);
    let nonce = random_nonce();
    let hello = protocol::encode(&HostHello { version: protocol::VERSION, nonce })?;
    writer.write_all(&frame::encode(Kind::Hello, 0, &hello)).await.map_err(closed)?;
    writer.flush().await.map_err(closed)?;
    // Hello messages are short. Limit the length, so that an unverified guest cannot make the host buffer more.
    let mut limited = reader.take(MAX_HELLO);
    let message = match Frame::read(&mut limited).await {
        Ok(Some(frame)) if !frame.more => from_guest::parse(frame)?,
        Ok(Some(_)) | Err(ReadError::Protocol(ProtocolError::Truncated))
            if limited.limit() == 0 =>
        {
            return Err(handshake_error("its hello message is too long"));
        }
        Ok(Some(_)) => {
            return Err(handshake_error("its hello message is split into several frames"));
        }
        Ok(None) | Err(ReadError::Io(_)) => {
            return Err(RequestError::Closed(CloseReason::ChannelClosed));
        }
        Err(ReadError::Protocol(error)) => return Err(error.into()),
    };
    match message {
        GuestMessage::Hello(hello) if hello.version != protocol::VERSION => {
            Err(handshake_error(format!("it uses protocol version {}", hello.version)))
        }
        GuestMessage::Hello(hello) if hello.nonce != nonce => {
            Err(handshake_error("it returned a wrong nonce"))
        }
        GuestMessage::Hello(hello) => Ok(hello),
        _ => Err(handshake_error("its first message is not a hello message")),
    }
}

const MAX_HELLO: u64 = 64 << 10;

fn handshake_error(problem: impl Into<String>) -> RequestError {
    ProtocolError::HandshakeFailed(problem.into()).into()
}

/// Returns a random number that distinguishes this start of a guest from others. The number is not a secret.
fn random_nonce() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

async fn read_all(mut reader: ReadHalf<Box<dyn Channel>>, shared: Arc<Shared>) {
    let mut assembler = Assembler::default();
    let reason = loop {
        let step = match Frame::read(&mut reader).await {
            Ok(Some(frame)) => assembler.push(frame),
            // A guest that was killed in the middle of a frame has not violated the protocol.
            Ok(None) | Err(ReadError::Io(_) | ReadError::Protocol(ProtocolError::Truncated)) => {
                break CloseReason::ChannelClosed;
            }
            Err(ReadError::Protocol(error)) => break CloseReason::Protocol(error),
        };
        let step = step.and_then(|message| match message {
            Some(message) => shared.deliver(message),
            None => Ok(()),
        });
        match step {
            Ok(()) if shared.closed.get().is_none() => {}
            Ok(()) => return,
            Err(error) => break CloseReason::Protocol(error),
        }
    };
    shared.close(reason);
}

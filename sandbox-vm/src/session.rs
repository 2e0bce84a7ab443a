//! The host's end of the channel to one guest.
//!
//! One task reads and one writes; whoever asks something waits on a queue of its own. The reader never waits for
//! anybody, so a slow reader of one answer holds up no other: what may pile up for a question is bounded when it is
//! asked, and a guest that sends more has broken the protocol.

mod outbox;
mod room;

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::mpsc,
    task::JoinSet,
};

pub(crate) use self::room::Room;
use self::{
    outbox::Outbox,
    room::{Questions, Waiting},
};
use crate::{
    backend::Channel,
    protocol::{
        self, Assembler, Frame, Kind, ProtocolError,
        frame::{self, ReadError},
        from_guest::{self, FromGuest, Stream},
        message::{Ask, Fault, FaultCode, GraphEvent, GuestHello, HostHello, Order},
    },
    sandbox::PATIENCE,
};

/// The channel to one guest. Cheap to clone; the channel closes with the last clone.
#[derive(Clone)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// The reader and the writer, which end with the session.
    #[expect(dead_code, reason = "held for its Drop, which ends the tasks")]
    tasks: Arc<JoinSet<()>>,
}

struct Shared {
    outbox: Outbox,
    // A std mutex: held for a moment, never over an await.
    questions: Mutex<Questions>,
    next: AtomicU64,
    closed: OnceLock<Closed>,
    /// Whether the guest is paused: nobody expects it to read.
    is_paused: AtomicBool,
}

/// What came for a question.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply(Vec<u8>),
    Failure(Fault),
    Event(Box<GraphEvent>),
    Output(Stream, Vec<u8>),
    Ask(u64, Box<Ask>),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The guest closed the channel.
    Ended,
    /// The guest does not keep to the protocol.
    Protocol(ProtocolError),
}

/// What came of a question.
#[derive(Debug)]
pub(crate) enum AskError {
    Closed(Closed),
    Fault(Fault),
    NoAnswer(Duration),
}

impl From<ProtocolError> for AskError {
    fn from(error: ProtocolError) -> Self {
        Self::Closed(Closed::Protocol(error))
    }
}

impl Session {
    /// Greets the guest, within that time.
    pub(crate) async fn open(
        channel: Box<dyn Channel>,
        patience: Duration,
    ) -> Result<(Self, GuestHello), AskError> {
        let (mut reader, mut writer) = tokio::io::split(channel);
        let greeting = greet(&mut reader, &mut writer);
        let hello = tokio::time::timeout(patience, greeting)
            .await
            .map_err(|_| AskError::NoAnswer(patience))??;
        let (outbox, writing) = Outbox::new(writer);
        let shared = Arc::new(Shared {
            outbox,
            questions: Mutex::default(),
            next: AtomicU64::new(1),
            closed: OnceLock::new(),
            is_paused: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(writing);
        tasks.spawn(read_all(reader, shared.clone()));
        Ok((Self { shared, tasks: Arc::new(tasks) }, hello))
    }

    /// Asks something and waits for its one answer.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        order: &Order,
        patience: Duration,
    ) -> Result<T, AskError> {
        let answer = async {
            let mut exchange = self.start(order, Room::default()).await?;
            exchange.next().await.map_err(AskError::Closed)
        };
        let answer = tokio::time::timeout(patience, answer);
        match answer.await.map_err(|_| AskError::NoAnswer(patience))?? {
            Incoming::Reply(payload) => Ok(self.read(&payload)?),
            Incoming::Failure(fault) => Err(AskError::Fault(fault)),
            // The room for anything else was nought.
            _ => Err(ProtocolError::OutOfTurn("something before the answer").into()),
        }
    }

    /// Reads an answer; one that cannot be read ends the session.
    pub(crate) fn read<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, ProtocolError> {
        from_guest::reply(payload)
            .inspect_err(|error| self.shared.close(Closed::Protocol(error.clone())))
    }

    /// Asks something that many messages may come for. An order that the guest would not take is refused here.
    pub(crate) async fn start(&self, order: &Order, room: Room) -> Result<Exchange, AskError> {
        let refused = |error| AskError::Fault(Fault::new(FaultCode::Refused, error));
        let payload = protocol::encode(order).map_err(refused)?;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (queue, incoming) = mpsc::unbounded_channel();
        self.shared.questions().waiting.insert(id, Waiting::new(queue, room));
        let exchange = Exchange { session: self.clone(), id, incoming, over: false };
        // Looked at after the queue was put there: whoever closes the session takes all queues out after it is closed.
        if let Some(closed) = self.closed() {
            return Err(AskError::Closed(closed));
        }
        // A guest that reads nothing leaves no place for another order.
        let sent = self.shared.outbox.put(Kind::Request, id, payload);
        let sent = tokio::time::timeout(PATIENCE, sent);
        sent.await.map_err(|_| AskError::NoAnswer(PATIENCE))?;
        Ok(exchange)
    }

    /// Answers a question of the guest. One that takes nothing for a while, and is not paused, has broken the protocol:
    /// the host holds the answer meanwhile.
    pub(crate) async fn answer(&self, id: u64, answer: Result<Vec<u8>, Fault>) {
        // The question itself is gone by now; the guest may ask another one as soon as it hears the answer.
        self.shared.questions().answered(id);
        let (kind, payload) = match answer {
            Ok(payload) => (Kind::Reply, payload),
            Err(fault) => (Kind::Failure, protocol::encode(&fault).unwrap_or_default()),
        };
        let outbox = &self.shared.outbox;
        let mut sent = pin!(outbox.put(kind, id, payload));
        let mut taken = outbox.taken();
        while tokio::time::timeout(PATIENCE, &mut sent).await.is_err() {
            if outbox.taken() == taken && !self.is_paused() {
                return self.violated("it does not read its answers");
            }
            taken = outbox.taken();
        }
    }

    /// Says whether the guest is paused.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.shared.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Whether the guest is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.shared.is_paused.load(Ordering::Relaxed)
    }

    /// Why the session is over, if it is.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.shared.closed.get().cloned()
    }

    /// Ends the session because the guest broke a rule.
    pub(crate) fn violated(&self, rule: &'static str) {
        self.shared.close(Closed::Protocol(ProtocolError::OutOfTurn(rule)));
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("closed", &self.shared.closed.get()).finish_non_exhaustive()
    }
}

/// A question under way. Dropping it before its answer tells the guest that none is wanted.
#[derive(Debug)]
pub(crate) struct Exchange {
    session: Session,
    id: u64,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    over: bool,
}

impl Exchange {
    /// What comes next for the question.
    pub(crate) async fn next(&mut self) -> Result<Incoming, Closed> {
        match self.incoming.recv().await {
            Some(incoming) => {
                self.over |= matches!(incoming, Incoming::Reply(_) | Incoming::Failure(_));
                Ok(incoming)
            }
            None => Err(self.session.closed().unwrap_or(Closed::Ended)),
        }
    }

    /// Who lets the guest send more events for this question.
    pub(crate) fn credit(&self) -> Credit {
        Credit { session: self.session.clone(), id: self.id }
    }

    /// A question back was answered: there is room for another.
    pub(crate) fn answered(&self) {
        if let Some(waiting) = self.session.shared.questions().waiting.get_mut(&self.id) {
            waiting.room.asks += 1;
        }
    }
}

/// Lets a guest send more events.
#[derive(Clone, Debug)]
pub(crate) struct Credit {
    session: Session,
    id: u64,
}

impl Credit {
    /// Lets the guest send so many more events.
    ///
    /// Whoever reads events does not wait for a guest that does not read: there is room for more only once the guest can
    /// be told, so few of these tasks wait at once, and they end with the session.
    pub(crate) fn grant(&self, events: u64) {
        let (shared, id) = (self.session.shared.clone(), self.id);
        let payload = protocol::encode(&events).unwrap_or_default();
        tokio::spawn(async move {
            let credit = || {
                shared.questions().waiting.get_mut(&id)?.room.events += events;
                Some(frame::write(Kind::Credit, id, &payload))
            };
            shared.outbox.put_short(credit).await;
        });
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.session.shared.questions().cancel(self.id);
        if self.over {
            return;
        }
        self.session.shared.outbox.put_soon(frame::write(Kind::Cancel, self.id, &[]));
    }
}

impl Shared {
    fn questions(&self) -> std::sync::MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, why: Closed) {
        let _ = self.closed.set(why);
        self.questions().waiting.clear();
    }

    /// Gives a message to whoever waits for it. One that nobody waits for is late, and no fault.
    fn deliver(&self, message: Frame) -> Result<(), ProtocolError> {
        let question = from_guest::question(&message)?;
        if !self.questions().take(question, &message)? {
            return Ok(());
        }
        // There is room for it: only now anything is made of it.
        let incoming = match from_guest::parse(message)? {
            FromGuest::Hello(_) => return Err(ProtocolError::OutOfTurn("a second greeting")),
            FromGuest::Reply(_, payload) => Incoming::Reply(payload),
            FromGuest::Failure(_, fault) => Incoming::Failure(fault),
            FromGuest::Event(_, event) => Incoming::Event(event),
            FromGuest::Output(_, stream, bytes) => Incoming::Output(stream, bytes),
            FromGuest::Ask(id, ask) => Incoming::Ask(id, ask),
        };
        let last = matches!(incoming, Incoming::Reply(_) | Incoming::Failure(_));
        let mut questions = self.questions();
        if let Some(waiting) = questions.waiting.get(&question) {
            let _ = waiting.queue.send(incoming);
        }
        if last {
            questions.remove(question);
        }
        Ok(())
    }
}

async fn greet(
    reader: &mut ReadHalf<Box<dyn Channel>>,
    writer: &mut WriteHalf<Box<dyn Channel>>,
) -> Result<GuestHello, AskError> {
    let ended = |_| AskError::Closed(Closed::Ended);
    let nonce = random_nonce();
    let hello = protocol::encode(&HostHello { version: protocol::VERSION, nonce })?;
    writer.write_all(&frame::write(Kind::Hello, 0, &hello)).await.map_err(ended)?;
    writer.flush().await.map_err(ended)?;
    // A greeting is short: a guest cannot make us hold more before it is known.
    let mut limited = reader.take(MAX_HELLO);
    let message = match Frame::read(&mut limited).await {
        Ok(Some(frame)) if !frame.more => from_guest::parse(frame)?,
        Ok(Some(_)) | Err(ReadError::Protocol(ProtocolError::Truncated))
            if limited.limit() == 0 =>
        {
            return Err(bad_hello("it is too long"));
        }
        Ok(Some(_)) => return Err(bad_hello("it is cut in parts")),
        Ok(None) | Err(ReadError::Io(_)) => return Err(AskError::Closed(Closed::Ended)),
        Err(ReadError::Protocol(error)) => return Err(error.into()),
    };
    match message {
        FromGuest::Hello(hello) if hello.version != protocol::VERSION => {
            Err(bad_hello(format!("it speaks version {}", hello.version)))
        }
        FromGuest::Hello(hello) if hello.nonce != nonce => Err(bad_hello("it says another nonce")),
        FromGuest::Hello(hello) => Ok(hello),
        _ => Err(bad_hello("it says something else first")),
    }
}

const MAX_HELLO: u64 = 64 << 10;

fn bad_hello(problem: impl Into<String>) -> AskError {
    ProtocolError::BadHello(problem.into()).into()
}

/// No secret: it only tells one start of a guest from another.
fn random_nonce() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

async fn read_all(mut reader: ReadHalf<Box<dyn Channel>>, shared: Arc<Shared>) {
    let mut assembler = Assembler::default();
    let why = loop {
        let step = match Frame::read(&mut reader).await {
            Ok(Some(frame)) => assembler.push(frame),
            // A guest that is killed in the middle of a frame has not said anything wrong.
            Ok(None) | Err(ReadError::Io(_) | ReadError::Protocol(ProtocolError::Truncated)) => {
                break Closed::Ended;
            }
            Err(ReadError::Protocol(error)) => break Closed::Protocol(error),
        };
        let step = step.and_then(|message| match message {
            Some(message) => shared.deliver(message),
            None => Ok(()),
        });
        match step {
            Ok(()) if shared.closed.get().is_none() => {}
            Ok(()) => return,
            Err(error) => break Closed::Protocol(error),
        }
    };
    shared.close(why);
}

/// An answer to the guest as bytes.
pub(crate) fn answer(value: &impl Serialize) -> Result<Vec<u8>, Fault> {
    protocol::encode(value).map_err(|error| Fault::new(FaultCode::Terminal, error))
}

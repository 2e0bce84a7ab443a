//! Descriptors: what the guest has open.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use nix::libc;
use rustix::io::Errno;

use super::{
    Answer, Kernel, Outside,
    poll::{Interests, Ready},
    streams::{Counter, Edges, Reader, Writer, pipe},
};
use crate::backend::kvm_process::disk::{Held, Kind};

/// How many pipes there may be at once: each holds memory of the monitor's.
const MAX_PIPES: usize = 64;

/// Something that is open, by one or several descriptors.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) object: Object,
    pub(super) is_nonblocking: Cell<bool>,
    /// Where the next byte, or the next entry of a folder, is.
    pub(super) offset: Cell<u64>,
    pub(super) may: May,
}

/// What may be done with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct May {
    pub(super) read: bool,
    pub(super) write: bool,
    /// Writing always goes to the end.
    pub(super) append: bool,
}

/// What is open.
#[derive(Debug)]
pub(super) enum Object {
    /// The one channel to the host.
    Channel(Edges),
    /// What the guest says outside the channel.
    Words,
    Null,
    Node(Held, Kind),
    Reader(Reader),
    Writer(Writer),
    Pair(Reader, Writer),
    Counter(Counter),
    Poll(RefCell<Interests>),
}

impl Open {
    pub(super) fn new(object: Object, flags: u64) -> Self {
        let bits = flags as i32;
        let way = bits & libc::O_ACCMODE;
        let may = May {
            read: way != libc::O_WRONLY,
            write: way != libc::O_RDONLY,
            append: bits & libc::O_APPEND != 0,
        };
        let is_nonblocking = Cell::new(bits & libc::O_NONBLOCK != 0);
        Self { object, is_nonblocking, offset: Cell::new(0), may }
    }

    /// What happened to it, for those who want to hear of news only.
    pub(super) fn edges(&self) -> (u64, u64) {
        let of = |input: &Edges, output: &Edges| (input.input.get(), output.output.get());
        match &self.object {
            Object::Channel(edges) => of(edges, edges),
            Object::Reader(it) => of(&it.0.edges, &it.0.edges),
            Object::Writer(it) => of(&it.0.edges, &it.0.edges),
            Object::Pair(reader, writer) => of(&reader.0.edges, &writer.0.edges),
            Object::Counter(it) => of(&it.edges, &it.edges),
            Object::Words | Object::Null | Object::Node(..) | Object::Poll(_) => (0, 0),
        }
    }

    /// Somebody read less of the channel than was asked for, and waits for news now, whatever the reason was.
    pub(super) fn runs_dry(&self) {
        if let Object::Channel(edges) = &self.object {
            edges.input();
        }
    }

    /// The same for writing.
    pub(super) fn runs_full(&self) {
        if let Object::Channel(edges) = &self.object {
            edges.output();
        }
    }

    /// What it is ready for, unless it is the channel, of which only the outside knows.
    pub(super) fn ready(&self) -> Ready {
        match &self.object {
            Object::Reader(it) => it.ready(),
            Object::Writer(it) => it.ready(),
            Object::Pair(reader, writer) => reader.ready().or(writer.ready()),
            Object::Counter(it) => it.ready(),
            Object::Channel(_) | Object::Poll(_) => Ready::default(),
            Object::Words | Object::Null | Object::Node(..) => {
                Ready { input: true, output: true, hangup: false }
            }
        }
    }

    fn is_pipe(&self) -> bool {
        matches!(self.object, Object::Reader(_) | Object::Writer(_) | Object::Pair(..))
    }
}

/// All descriptors.
#[derive(Debug)]
pub(super) struct Descriptors {
    open: BTreeMap<u64, Descriptor>,
    most: u64,
}

#[derive(Debug)]
struct Descriptor {
    open: Rc<Open>,
    closes_on_exec: Cell<bool>,
}

impl Descriptors {
    /// The first three: the channel, nothing, and what is said outside the channel.
    pub(super) fn new(most: u64) -> Self {
        let mut descriptors = Self { open: BTreeMap::new(), most };
        for object in [Object::Channel(Edges::default()), Object::Null, Object::Words] {
            let open = Rc::new(Open::new(object, libc::O_RDWR as u64));
            let _ = descriptors.add(open, 0, false);
        }
        descriptors
    }

    pub(super) fn get(&self, fd: u64) -> Result<Rc<Open>, Errno> {
        // A descriptor is an `int`: what is above its bits does not count.
        let fd = u64::from(fd as u32);
        self.open.get(&fd).map(|it| it.open.clone()).ok_or(Errno::BADF)
    }

    /// The lowest free number from `from` on.
    pub(super) fn add(&mut self, open: Rc<Open>, from: u64, closes: bool) -> Result<u64, Errno> {
        let taken = self.open.range(from..).zip(from..);
        let fd = from + taken.take_while(|((fd, _), free)| *fd == free).count() as u64;
        if fd >= self.most {
            return Err(Errno::MFILE);
        }
        self.open.insert(fd, Descriptor { open, closes_on_exec: Cell::new(closes) });
        Ok(fd)
    }

    fn count_pipes(&self) -> usize {
        self.open.values().filter(|it| it.open.is_pipe()).count()
    }
}

impl<O: Outside> Kernel<O> {
    pub(super) fn close(&mut self, fd: u64) -> Answer {
        let closed = self.descriptors.open.remove(&u64::from(fd as u32)).ok_or(Errno::BADF)?;
        self.drop_open(closed.open);
        Ok(0)
    }

    /// A file that was removed while it was open goes with its last descriptor.
    pub(super) fn drop_open(&mut self, open: Rc<Open>) {
        if let Some(Open { object: Object::Node(held, _), .. }) = Rc::into_inner(open) {
            self.disk.let_go(held);
        }
    }

    pub(super) fn dup(&mut self, fd: u64, from: u64) -> Answer {
        let open = self.open(fd)?;
        Ok(self.descriptors.add(open, from, false)?)
    }

    pub(super) fn fcntl(&mut self, fd: u64, what: u64, value: u64) -> Answer {
        let open = self.open(fd)?;
        let descriptor = self.descriptors.open.get(&u64::from(fd as u32)).ok_or(Errno::BADF)?;
        match what as i32 {
            libc::F_DUPFD => self.dup(fd, value),
            libc::F_DUPFD_CLOEXEC => Ok(self.descriptors.add(open, value, true)?),
            libc::F_GETFD => Ok(u64::from(descriptor.closes_on_exec.get())),
            libc::F_SETFD => {
                descriptor.closes_on_exec.set(value & 1 != 0);
                Ok(0)
            }
            libc::F_GETFL => Ok(status(&open)),
            libc::F_SETFL => {
                open.is_nonblocking.set(value as i32 & libc::O_NONBLOCK != 0);
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn ioctl(&mut self, fd: u64, what: u64, value: u64) -> Answer {
        let open = self.open(fd)?;
        match what {
            libc::FIONBIO => {
                let on = self.number::<4>(value)? != [0; 4];
                open.is_nonblocking.set(on);
                Ok(0)
            }
            libc::FIOCLEX | libc::FIONCLEX => Ok(0),
            _ => Err(Errno::NOTTY.into()),
        }
    }

    pub(super) fn pipe(&mut self, at: u64, flags: u64) -> Answer {
        let (reader, writer) = pipe();
        let flags = flags & !(libc::O_ACCMODE as u64);
        let ends = [
            Open::new(Object::Reader(reader), flags | libc::O_RDONLY as u64),
            Open::new(Object::Writer(writer), flags | libc::O_WRONLY as u64),
        ];
        self.add_pair(ends, at, flags)
    }

    /// Two ends of one conversation inside the guest; there are no other sockets.
    pub(super) fn socket_pair(&mut self, family: u64, kind: u64, at: u64) -> Answer {
        let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64;
        if family != libc::AF_UNIX as u64 || kind & !flags != libc::SOCK_STREAM as u64 {
            return Err(Errno::AFNOSUPPORT.into());
        }
        let ((first_in, second_out), (second_in, first_out)) = (pipe(), pipe());
        let flags = flags | libc::O_RDWR as u64;
        let ends = [
            Open::new(Object::Pair(first_in, first_out), flags),
            Open::new(Object::Pair(second_in, second_out), flags),
        ];
        self.add_pair(ends, at, flags)
    }

    fn add_pair(&mut self, [first, second]: [Open; 2], at: u64, flags: u64) -> Answer {
        if self.descriptors.count_pipes() >= MAX_PIPES {
            return Err(Errno::MFILE.into());
        }
        self.check_room(at, 8)?;
        let closes = flags & libc::O_CLOEXEC as u64 != 0;
        let first = self.descriptors.add(Rc::new(first), 0, closes)?;
        let second = match self.descriptors.add(Rc::new(second), 0, closes) {
            Ok(second) => second,
            Err(error) => {
                self.close(first)?;
                return Err(error.into());
            }
        };
        let both = [(first as u32).to_le_bytes(), (second as u32).to_le_bytes()].concat();
        self.space.write(at, &both)?;
        Ok(0)
    }

    pub(super) fn eventfd(&mut self, count: u64, flags: u64) -> Answer {
        let takes_one = flags & libc::EFD_SEMAPHORE as u64 != 0;
        let counter = Counter::new(u64::from(count as u32), takes_one);
        let closes = flags & libc::O_CLOEXEC as u64 != 0;
        let open = Open::new(
            Object::Counter(counter),
            flags & libc::O_NONBLOCK as u64 | libc::O_RDWR as u64,
        );
        Ok(self.descriptors.add(Rc::new(open), 0, closes)?)
    }

    pub(super) fn epoll_create(&mut self) -> Answer {
        let open = Open::new(Object::Poll(RefCell::default()), 0);
        Ok(self.descriptors.add(Rc::new(open), 0, true)?)
    }
}

fn status(open: &Open) -> u64 {
    let way = match (open.may.read, open.may.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    let append = if open.may.append { libc::O_APPEND } else { 0 };
    let nonblocking = if open.is_nonblocking.get() { libc::O_NONBLOCK } else { 0 };
    u64::from((way | append | nonblocking).cast_unsigned())
}

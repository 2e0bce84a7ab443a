//! The guest's file descriptors.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use nix::libc;
use rustix::io::Errno;

use super::{
    CallResult, HostIo, Kernel,
    poll::{Interests, Readiness},
    streams::{EdgeCounts, EventCounter, PipeReader, PipeWriter, pipe},
};
use crate::backend::kvm_process::disk::{FileKind, NodeRef};

/// Maximum number of open pipe ends. Limited because each pipe uses memory in the monitor.
const MAX_PIPES: usize = 64;

/// An open file, shared by one or more descriptors.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) object: Object,
    pub(super) is_nonblocking: Cell<bool>,
    /// Position of the next byte in a file, or number of the last entry that was read from a directory.
    pub(super) offset: Cell<u64>,
    pub(super) mode: AccessMode,
}

/// Access mode with which a file was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccessMode {
    pub(super) read: bool,
    pub(super) write: bool,
    /// Whether every write appends to the file.
    pub(super) append: bool,
}

/// The object that an open file refers to.
#[derive(Debug)]
pub(super) enum Object {
    /// The only channel to the host.
    Channel(EdgeCounts),
    /// Diagnostic output outside the channel.
    Diagnostics,
    Null,
    Node(NodeRef, FileKind),
    PipeReader(PipeReader),
    PipeWriter(PipeWriter),
    SocketPair(PipeReader, PipeWriter),
    EventFd(EventCounter),
    Epoll(RefCell<Interests>),
}

impl OpenFile {
    pub(super) fn new(object: Object, flags: u64) -> Self {
        let bits = flags as i32;
        let way = bits & libc::O_ACCMODE;
        let mode = AccessMode {
            read: way != libc::O_WRONLY,
            write: way != libc::O_RDONLY,
            append: bits & libc::O_APPEND != 0,
        };
        let is_nonblocking = Cell::new(bits & libc::O_NONBLOCK != 0);
        Self { object, is_nonblocking, offset: Cell::new(0), mode }
    }

    /// Returns the edge counts for input and for output, which edge-triggered waits need.
    pub(super) fn edge_counts(&self) -> (u64, u64) {
        let of = |input: &EdgeCounts, output: &EdgeCounts| (input.input.get(), output.output.get());
        match &self.object {
            Object::Channel(edges) => of(edges, edges),
            Object::PipeReader(it) => of(&it.0.edges, &it.0.edges),
            Object::PipeWriter(it) => of(&it.0.edges, &it.0.edges),
            Object::SocketPair(reader, writer) => of(&reader.0.edges, &writer.0.edges),
            Object::EventFd(it) => of(&it.edges, &it.edges),
            Object::Diagnostics | Object::Null | Object::Node(..) | Object::Epoll(_) => (0, 0),
        }
    }

    /// Counts an input edge of the channel. Called after a read has returned fewer bytes than requested, for any
    /// reason, because an edge-triggered reader then waits for a new event.
    pub(super) fn mark_input_drained(&self) {
        if let Object::Channel(edges) = &self.object {
            edges.bump_input();
        }
    }

    /// Counts an output edge of the channel. Called after a write has accepted fewer bytes than requested.
    pub(super) fn mark_output_full(&self) {
        if let Object::Channel(edges) = &self.object {
            edges.bump_output();
        }
    }

    /// Returns the operations that the file is ready for. Returns none for the channel, because only the host knows the
    /// readiness of the channel.
    pub(super) fn readiness(&self) -> Readiness {
        match &self.object {
            Object::PipeReader(it) => it.readiness(),
            Object::PipeWriter(it) => it.readiness(),
            Object::SocketPair(reader, writer) => reader.readiness().or(writer.readiness()),
            Object::EventFd(it) => it.readiness(),
            Object::Channel(_) | Object::Epoll(_) => Readiness::default(),
            Object::Diagnostics | Object::Null | Object::Node(..) => {
                Readiness { input: true, output: true, hangup: false }
            }
        }
    }

    fn is_pipe(&self) -> bool {
        matches!(
            self.object,
            Object::PipeReader(_) | Object::PipeWriter(_) | Object::SocketPair(..)
        )
    }
}

/// All descriptors of the guest.
#[derive(Debug)]
pub(super) struct Descriptors {
    open: BTreeMap<u64, Descriptor>,
    max: u64,
}

#[derive(Debug)]
struct Descriptor {
    open: Rc<OpenFile>,
    closes_on_exec: Cell<bool>,
}

impl Descriptors {
    /// Creates a table with the first three descriptors, which are the channel, a null device and the diagnostic
    /// output.
    pub(super) fn new(max: u64) -> Self {
        let mut descriptors = Self { open: BTreeMap::new(), max };
        for object in [Object::Channel(EdgeCounts::default()), Object::Null, Object::Diagnostics] {
            let open = Rc::new(OpenFile::new(object, libc::O_RDWR as u64));
            let _ = descriptors.add(open, 0, false);
        }
        descriptors
    }

    pub(super) fn get(&self, fd: u64) -> Result<Rc<OpenFile>, Errno> {
        // A descriptor is an `int`, so the upper bits are ignored.
        let fd = u64::from(fd as u32);
        self.open.get(&fd).map(|it| it.open.clone()).ok_or(Errno::BADF)
    }

    /// Adds a descriptor with the lowest free number that is at least `from`.
    pub(super) fn add(
        &mut self,
        open: Rc<OpenFile>,
        from: u64,
        closes: bool,
    ) -> Result<u64, Errno> {
        let taken = self.open.range(from..).zip(from..);
        let fd = from + taken.take_while(|((fd, _), free)| *fd == free).count() as u64;
        if fd >= self.max {
            return Err(Errno::MFILE);
        }
        self.open.insert(fd, Descriptor { open, closes_on_exec: Cell::new(closes) });
        Ok(fd)
    }

    fn count_pipes(&self) -> usize {
        self.open.values().filter(|it| it.open.is_pipe()).count()
    }
}

impl<O: HostIo> Kernel<O> {
    pub(super) fn close(&mut self, fd: u64) -> CallResult {
        let closed = self.descriptors.open.remove(&u64::from(fd as u32)).ok_or(Errno::BADF)?;
        self.drop_open(closed.open);
        Ok(0)
    }

    /// Releases an open file. If the file was removed while it was open, it is deleted when its last descriptor is
    /// closed.
    pub(super) fn drop_open(&mut self, open: Rc<OpenFile>) {
        if let Some(OpenFile { object: Object::Node(node, _), .. }) = Rc::into_inner(open) {
            self.disk.release(node);
        }
    }

    pub(super) fn dup(&mut self, fd: u64, from: u64) -> CallResult {
        let open = self.open(fd)?;
        Ok(self.descriptors.add(open, from, false)?)
    }

    pub(super) fn fcntl(&mut self, fd: u64, what: u64, value: u64) -> CallResult {
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
            libc::F_GETFL => Ok(status_flags(&open)),
            libc::F_SETFL => {
                open.is_nonblocking.set(value as i32 & libc::O_NONBLOCK != 0);
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn ioctl(&mut self, fd: u64, what: u64, value: u64) -> CallResult {
        let open = self.open(fd)?;
        match what {
            libc::FIONBIO => {
                let on = self.read_array::<4>(value)? != [0; 4];
                open.is_nonblocking.set(on);
                Ok(0)
            }
            libc::FIOCLEX | libc::FIONCLEX => Ok(0),
            _ => Err(Errno::NOTTY.into()),
        }
    }

    pub(super) fn pipe(&mut self, at: u64, flags: u64) -> CallResult {
        let (reader, writer) = pipe();
        let flags = flags & !(libc::O_ACCMODE as u64);
        let ends = [
            OpenFile::new(Object::PipeReader(reader), flags | libc::O_RDONLY as u64),
            OpenFile::new(Object::PipeWriter(writer), flags | libc::O_WRONLY as u64),
        ];
        self.add_pair(ends, at, flags)
    }

    /// Creates two connected sockets inside the guest. The guest can create no other sockets.
    pub(super) fn socket_pair(&mut self, family: u64, kind: u64, at: u64) -> CallResult {
        let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64;
        if family != libc::AF_UNIX as u64 || kind & !flags != libc::SOCK_STREAM as u64 {
            return Err(Errno::AFNOSUPPORT.into());
        }
        let ((first_in, second_out), (second_in, first_out)) = (pipe(), pipe());
        let flags = flags | libc::O_RDWR as u64;
        let ends = [
            OpenFile::new(Object::SocketPair(first_in, first_out), flags),
            OpenFile::new(Object::SocketPair(second_in, second_out), flags),
        ];
        self.add_pair(ends, at, flags)
    }

    fn add_pair(&mut self, [first, second]: [OpenFile; 2], at: u64, flags: u64) -> CallResult {
        if self.descriptors.count_pipes() >= MAX_PIPES {
            return Err(Errno::MFILE.into());
        }
        self.check_writable(at, 8)?;
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

    pub(super) fn eventfd(&mut self, count: u64, flags: u64) -> CallResult {
        let is_semaphore = flags & libc::EFD_SEMAPHORE as u64 != 0;
        let counter = EventCounter::new(u64::from(count as u32), is_semaphore);
        let closes = flags & libc::O_CLOEXEC as u64 != 0;
        let open = OpenFile::new(
            Object::EventFd(counter),
            flags & libc::O_NONBLOCK as u64 | libc::O_RDWR as u64,
        );
        Ok(self.descriptors.add(Rc::new(open), 0, closes)?)
    }

    pub(super) fn epoll_create(&mut self) -> CallResult {
        let open = OpenFile::new(Object::Epoll(RefCell::default()), 0);
        Ok(self.descriptors.add(Rc::new(open), 0, true)?)
    }
}

fn status_flags(open: &OpenFile) -> u64 {
    let way = match (open.mode.read, open.mode.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    let append = if open.mode.append { libc::O_APPEND } else { 0 };
    let nonblocking = if open.is_nonblocking.get() { libc::O_NONBLOCK } else { 0 };
    u64::from((way | append | nonblocking).cast_unsigned())
}

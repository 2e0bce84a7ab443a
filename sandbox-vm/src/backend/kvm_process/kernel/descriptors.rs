//! The guest's file descriptors.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::{Rc, Weak},
};

use nix::libc;
use rustix::io::Errno;

use super::{
    host::Readiness,
    streams::{EdgeCounts, EventCounter, PipeReader, PipeWriter},
};
use crate::backend::kvm_process::{
    disk::{FileKind, NodeRef},
    library::Library,
};

/// An open file, shared by one or more descriptors.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) object: Object,
    pub(super) is_nonblocking: Cell<bool>,
    /// Position of the next byte in a file, or number of the last entry that was read from a directory.
    pub(super) offset: Cell<u64>,
    pub(super) mode: AccessMode,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccessMode {
    pub(super) read: bool,
    pub(super) write: bool,
    /// Whether every write appends to the file.
    pub(super) append: bool,
}

#[derive(Debug)]
pub(super) enum Object {
    /// The only channel to the host.
    Channel(EdgeCounts),
    /// Diagnostic output outside the channel.
    Diagnostics,
    Null,
    Node(NodeRef, FileKind),
    /// A library of the guest's program, always open for reading only.
    Library(Rc<Library>),
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
            Object::Diagnostics
            | Object::Null
            | Object::Node(..)
            | Object::Library(_)
            | Object::Epoll(_) => (0, 0),
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
            Object::Diagnostics | Object::Null | Object::Node(..) | Object::Library(_) => {
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

/// The files that one `epoll` descriptor watches, by their descriptors.
#[derive(Debug, Default)]
pub(super) struct Interests(pub(super) BTreeMap<u64, Interest>);

#[derive(Debug)]
pub(super) struct Interest {
    pub(super) open: Weak<OpenFile>,
    pub(super) events: u32,
    pub(super) data: u64,
    /// The edge counts for input and output when the last event was reported. Each is `None` before the first report
    /// and after the interest is modified.
    pub(super) reported: (Option<u64>, Option<u64>),
}

impl Interest {
    fn has(&self, flag: i32) -> bool {
        self.events & flag.cast_unsigned() != 0
    }

    /// Returns the events that may be reported now. If the interest is edge-triggered, these are only events with a new
    /// edge.
    pub(super) fn wants(&self, open: &OpenFile) -> Readiness {
        let (input, output) = open.edge_counts();
        let is_new =
            |reported: Option<u64>, edge| !self.has(libc::EPOLLET) || reported != Some(edge);
        Readiness {
            input: self.has(libc::EPOLLIN) && is_new(self.reported.0, input),
            output: self.has(libc::EPOLLOUT) && is_new(self.reported.1, output),
            hangup: is_new(self.reported.0, input) || is_new(self.reported.1, output),
        }
    }
}

#[derive(Debug)]
pub(super) struct Descriptors {
    pub(super) open: BTreeMap<u64, Descriptor>,
    max: u64,
}

#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) open: Rc<OpenFile>,
    pub(super) closes_on_exec: Cell<bool>,
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

    pub(super) fn count_pipes(&self) -> usize {
        self.open.values().filter(|it| it.open.is_pipe()).count()
    }
}

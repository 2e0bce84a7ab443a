//! Streams inside the guest: pipes, and counters that wake whoever waits for them.
//!
//! Each counts its edges, the moments at which something came or went, for those who want to hear of news only.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use rustix::io::Errno;

use super::poll::Ready;

/// How much a pipe holds.
const CAPACITY: usize = 64 << 10;

/// How often something happened, for those who read and for those who write.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub(super) input: Cell<u64>,
    pub(super) output: Cell<u64>,
}

impl Edges {
    pub(super) fn input(&self) {
        self.input.set(self.input.get().wrapping_add(1));
    }

    pub(super) fn output(&self) {
        self.output.set(self.output.get().wrapping_add(1));
    }
}

/// A pipe inside the guest.
#[derive(Debug)]
pub(super) struct Pipe {
    bytes: RefCell<VecDeque<u8>>,
    is_read: Cell<bool>,
    is_written: Cell<bool>,
    pub(super) edges: Edges,
}

/// A pipe's two ends.
pub(super) fn pipe() -> (Reader, Writer) {
    let pipe = Rc::new(Pipe {
        bytes: RefCell::default(),
        is_read: Cell::new(true),
        is_written: Cell::new(true),
        edges: Edges::default(),
    });
    (Reader(pipe.clone()), Writer(pipe))
}

/// The end of a pipe that is read; the other end hears when it is dropped.
#[derive(Debug)]
pub(super) struct Reader(pub(super) Rc<Pipe>);

/// The end of a pipe that is written to; the other end hears when it is dropped.
#[derive(Debug)]
pub(super) struct Writer(pub(super) Rc<Pipe>);

impl Reader {
    pub(super) fn ready(&self) -> Ready {
        let hangup = !self.0.is_written.get();
        Ready { input: hangup || !self.0.bytes.borrow().is_empty(), output: false, hangup }
    }

    pub(super) fn read(&self, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = self.0.bytes.borrow_mut();
        if bytes.is_empty() && self.0.is_written.get() && len > 0 {
            return Err(Errno::AGAIN);
        }
        let len = len.min(bytes.len());
        let taken = bytes.drain(..len).collect();
        self.0.edges.output();
        Ok(taken)
    }
}

impl Writer {
    pub(super) fn ready(&self) -> Ready {
        let hangup = !self.0.is_read.get();
        let output = hangup || self.0.bytes.borrow().len() < CAPACITY;
        Ready { input: false, output, hangup }
    }

    pub(super) fn write(&self, from: &[u8]) -> Result<usize, Errno> {
        if !self.0.is_read.get() {
            return Err(Errno::PIPE);
        }
        let mut bytes = self.0.bytes.borrow_mut();
        let len = from.len().min(CAPACITY - bytes.len());
        if len == 0 && !from.is_empty() {
            return Err(Errno::AGAIN);
        }
        bytes.extend(&from[..len]);
        self.0.edges.input();
        Ok(len)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.is_read.set(false);
        self.0.edges.output();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.is_written.set(false);
        self.0.edges.input();
    }
}

/// A counter that is read and reset, and added to.
#[derive(Debug)]
pub(super) struct Counter {
    count: Cell<u64>,
    /// Whether reading takes one, and not all.
    pub(super) takes_one: bool,
    pub(super) edges: Edges,
}

impl Counter {
    pub(super) fn new(count: u64, takes_one: bool) -> Self {
        Self { count: Cell::new(count), takes_one, edges: Edges::default() }
    }

    pub(super) fn ready(&self) -> Ready {
        let count = self.count.get();
        Ready { input: count > 0, output: count < u64::MAX - 1, hangup: false }
    }

    pub(super) fn read(&self) -> Result<u64, Errno> {
        let count = self.count.get();
        let taken = if self.takes_one { count.min(1) } else { count };
        if taken == 0 {
            return Err(Errno::AGAIN);
        }
        self.count.set(count - taken);
        self.edges.output();
        Ok(taken)
    }

    pub(super) fn add(&self, more: u64) -> Result<(), Errno> {
        if more == u64::MAX {
            return Err(Errno::INVAL);
        }
        let sum = self.count.get().checked_add(more).filter(|it| *it < u64::MAX);
        self.count.set(sum.ok_or(Errno::AGAIN)?);
        self.edges.input();
        Ok(())
    }
}

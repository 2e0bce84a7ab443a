//! Streams inside the guest, which are pipes and event counters.
//!
//! Each stream counts its *edges*, which are the times at which its readiness may have changed. Edge-triggered waits
//! need these counts.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use rustix::io::Errno;

use super::host::Readiness;

const CAPACITY: usize = 64 << 10;

/// Number of edges (possible changes of readiness) so far, for readers (`input`) and for writers (`output`).
#[derive(Debug, Default)]
pub(super) struct EdgeCounts {
    pub(super) input: Cell<u64>,
    pub(super) output: Cell<u64>,
}

impl EdgeCounts {
    pub(super) fn bump_input(&self) {
        self.input.set(self.input.get().wrapping_add(1));
    }

    pub(super) fn bump_output(&self) {
        self.output.set(self.output.get().wrapping_add(1));
    }
}

#[derive(Debug)]
pub(super) struct Pipe {
    bytes: RefCell<VecDeque<u8>>,
    has_reader: Cell<bool>,
    has_writer: Cell<bool>,
    pub(super) edges: EdgeCounts,
}

pub(super) fn pipe() -> (PipeReader, PipeWriter) {
    let pipe = Rc::new(Pipe {
        bytes: RefCell::default(),
        has_reader: Cell::new(true),
        has_writer: Cell::new(true),
        edges: EdgeCounts::default(),
    });
    (PipeReader(pipe.clone()), PipeWriter(pipe))
}

/// Reading end of a pipe. When it is dropped, the writing end is notified.
#[derive(Debug)]
pub(super) struct PipeReader(pub(super) Rc<Pipe>);

/// Writing end of a pipe. When it is dropped, the reading end is notified.
#[derive(Debug)]
pub(super) struct PipeWriter(pub(super) Rc<Pipe>);

impl PipeReader {
    pub(super) fn readiness(&self) -> Readiness {
        let hangup = !self.0.has_writer.get();
        Readiness { input: hangup || !self.0.bytes.borrow().is_empty(), output: false, hangup }
    }

    pub(super) fn read(&self, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = self.0.bytes.borrow_mut();
        if bytes.is_empty() && self.0.has_writer.get() && len > 0 {
            return Err(Errno::AGAIN);
        }
        let len = len.min(bytes.len());
        let taken = bytes.drain(..len).collect();
        self.0.edges.bump_output();
        Ok(taken)
    }
}

impl PipeWriter {
    pub(super) fn readiness(&self) -> Readiness {
        let hangup = !self.0.has_reader.get();
        let output = hangup || self.0.bytes.borrow().len() < CAPACITY;
        Readiness { input: false, output, hangup }
    }

    pub(super) fn write(&self, from: &[u8]) -> Result<usize, Errno> {
        if !self.0.has_reader.get() {
            return Err(Errno::PIPE);
        }
        let mut bytes = self.0.bytes.borrow_mut();
        let len = from.len().min(CAPACITY - bytes.len());
        if len == 0 && !from.is_empty() {
            return Err(Errno::AGAIN);
        }
        bytes.extend(&from[..len]);
        self.0.edges.bump_input();
        Ok(len)
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.has_reader.set(false);
        self.0.edges.bump_output();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.has_writer.set(false);
        self.0.edges.bump_input();
    }
}

#[derive(Debug)]
pub(super) struct EventCounter {
    count: Cell<u64>,
    /// Whether reading subtracts one instead of resetting the counter.
    pub(super) is_semaphore: bool,
    pub(super) edges: EdgeCounts,
}

impl EventCounter {
    pub(super) fn new(count: u64, is_semaphore: bool) -> Self {
        Self { count: Cell::new(count), is_semaphore, edges: EdgeCounts::default() }
    }

    pub(super) fn readiness(&self) -> Readiness {
        let count = self.count.get();
        Readiness { input: count > 0, output: count < u64::MAX - 1, hangup: false }
    }

    pub(super) fn read(&self) -> Result<u64, Errno> {
        let count = self.count.get();
        let taken = if self.is_semaphore { count.min(1) } else { count };
        if taken == 0 {
            return Err(Errno::AGAIN);
        }
        self.count.set(count - taken);
        self.edges.bump_output();
        Ok(taken)
    }

    pub(super) fn add(&self, more: u64) -> Result<(), Errno> {
        if more == u64::MAX {
            return Err(Errno::INVAL);
        }
        let sum = self.count.get().checked_add(more).filter(|it| *it < u64::MAX);
        self.count.set(sum.ok_or(Errno::AGAIN)?);
        self.edges.bump_input();
        Ok(())
    }
}

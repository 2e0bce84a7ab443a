//! What answers the guest's system calls.
//!
//! A short list is answered, all from the monitor's own memory: nothing is handed on to the host's kernel but bytes on
//! the one channel, the time, and randomness ([`Outside`]). Every number of the guest is hostile; every address goes
//! through [`Space`], which reaches guest memory alone. It needs no KVM, so it is tested and fuzzed without.

mod descriptors;
#[cfg(any(test, feature = "testkit"))]
mod drive;
mod files;
mod layout;
mod list;
mod memory;
mod poll;
mod process;
mod streams;
mod transfer;

use std::{fmt, rc::Rc, time::Duration};

use rustix::io::Errno;

#[cfg(test)]
pub(super) use self::drive::Still;
#[cfg(any(test, feature = "testkit"))]
pub use self::drive::drive;
pub(super) use self::poll::Ready;
use self::{
    descriptors::{Descriptors, Open},
    memory::Heap,
};
use super::{
    disk::{Disk, Held, ROOT, Size},
    space::Space,
};
use crate::guest::WORKSPACE;

/// A system call, as the guest makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) args: [u64; 6],
}

/// What comes of a system call.
#[derive(Debug)]
pub(super) enum Step {
    /// It returns this: a value, or an error as a small negative number.
    Return(u64),
    /// The guest's thread has its variables there; the call returns zero.
    ThreadArea(u64),
    /// The guest is over.
    End(End),
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with this code.
    Exit(i32),
    /// By a signal that it sent to itself.
    Signal(i32),
    /// It did what the processor does not let it do.
    Fault(String),
    /// It waits for something that nobody but itself could do.
    Stuck,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "the guest ended with code {code}"),
            Self::Signal(signal) => write!(f, "the guest ended by signal {signal}"),
            Self::Fault(what) => write!(f, "the guest {what}"),
            Self::Stuck => write!(f, "the guest waits for a thread, and there is only one"),
        }
    }
}

/// All that a guest can reach outside its own memory.
pub(super) trait Outside {
    /// Takes what has come on the channel; zero bytes where the host has closed it.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Sends on the channel, as much as there is room for.
    fn send(&mut self, from: &[u8]) -> Result<usize, Errno>;

    /// Waits for the channel to be ready in a wanted way, or for the time to pass. Without either it returns at once.
    fn wait(&mut self, wanted: Ready, patience: Option<Duration>) -> Ready;

    /// Takes what the guest says outside the channel.
    fn say(&mut self, words: &[u8]);

    /// Fills bytes that nobody can guess.
    fn random(&mut self, into: &mut [u8]) -> Result<(), Errno>;

    /// The time since the epoch, or since the machine started.
    fn clock(&self, clock: Clock) -> Duration;
}

/// What a time is counted from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Epoch,
    Start,
    /// Processor time that was used.
    Processor,
}

/// Why a call does not return a value.
enum Failed {
    Errno(Errno),
    End(End),
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

type Answer = Result<u64, Failed>;

/// What answers the guest's system calls.
pub(super) struct Kernel<O> {
    space: Space,
    heap: Heap,
    disk: Disk,
    descriptors: Descriptors,
    /// The folder that relative paths start at.
    current: Held,
    outside: O,
}

impl<O: Outside> Kernel<O> {
    /// A kernel for a program that is in this memory, with its heap after it.
    pub(super) fn new(space: Space, heap: u64, size: Size, outside: O) -> Self {
        let disk = Disk::new(size, &[WORKSPACE, "/tmp"]);
        let current = disk.follow(ROOT, WORKSPACE.as_bytes()).and_then(|it| disk.hold(it));
        let current = current.unwrap_or_else(|_| Rc::new(ROOT));
        let descriptors = Descriptors::new(size.files);
        Self { space, heap: Heap::new(heap), disk, descriptors, current, outside }
    }

    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    #[cfg(test)]
    pub(super) fn into_outside(self) -> O {
        self.outside
    }

    /// Answers a system call.
    pub(super) fn call(&mut self, call: Call) -> Step {
        if let Some(base) = process::thread_area(call) {
            return Step::ThreadArea(base);
        }
        match self.answer(call) {
            Ok(value) => Step::Return(value),
            Err(Failed::Errno(errno)) => {
                Step::Return(i64::from(errno.raw_os_error()).wrapping_neg().cast_unsigned())
            }
            Err(Failed::End(end)) => Step::End(end),
        }
    }

    /// Reads a number of the guest's.
    fn number<const N: usize>(&self, at: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.space.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `len` bytes, which the caller has bounded.
    fn bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        self.space.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a text that ends with a zero, page by page.
    fn text(&self, at: u64) -> Result<Vec<u8>, Errno> {
        const MAX: u64 = 4096;
        let mut text = Vec::new();
        while (text.len() as u64) < MAX {
            let next = at.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let len = (MAX - next % MAX).min(MAX - text.len() as u64);
            let piece = self.bytes(next, len as usize)?;
            if let Some(end) = piece.iter().position(|it| *it == 0) {
                text.extend(&piece[..end]);
                return Ok(text);
            }
            text.extend(piece);
        }
        Err(Errno::NAMETOOLONG)
    }

    fn open(&self, fd: u64) -> Result<Rc<Open>, Errno> {
        self.descriptors.get(fd)
    }

    fn end(end: End) -> Answer {
        Err(Failed::End(end))
    }
}

impl<O> fmt::Debug for Kernel<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("space", &self.space).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

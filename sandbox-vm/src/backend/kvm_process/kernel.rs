//! What answers the guest's system calls.
//!
//! A short list is answered, all from the monitor's own memory: nothing is handed on to the host's kernel but bytes on
//! the one channel, the time, and randomness ([`HostIo`]). Every number of the guest is hostile; every address goes
//! through [`AddressSpace`], which reaches guest memory alone. It needs no KVM, so it is tested and fuzzed without.

mod descriptors;
mod dispatch;
mod files;
#[cfg(any(test, feature = "testkit"))]
mod fuzz;
mod layout;
mod memory;
mod poll;
mod process;
mod streams;
mod transfer;

use std::{fmt, rc::Rc, time::Duration};

use rustix::io::Errno;

#[cfg(test)]
pub(super) use self::fuzz::FakeHost;
#[cfg(any(test, feature = "testkit"))]
pub use self::fuzz::fuzz_kernel;
pub(super) use self::poll::Readiness;
use self::{
    descriptors::{Descriptors, OpenFile},
    memory::Heap,
};
use super::{
    disk::{Capacity, Disk, NodeRef, ROOT},
    space::AddressSpace,
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
pub(super) enum CallOutcome {
    /// It returns this: a value, or an error as a small negative number.
    Return(u64),
    /// The guest's thread has its variables there; the call returns zero.
    SetThreadPointer(u64),
    /// The guest is over.
    Exit(GuestExit),
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GuestExit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that it sent to itself.
    Signal(i32),
    /// It did what the processor does not let it do.
    Fault(String),
    /// It waits for something that nobody but itself could do.
    Deadlock,
}

impl fmt::Display for GuestExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "the guest ended with code {code}"),
            Self::Signal(signal) => write!(f, "the guest ended by signal {signal}"),
            Self::Fault(what) => write!(f, "the guest {what}"),
            Self::Deadlock => write!(f, "the guest waits for a thread, and there is only one"),
        }
    }
}

/// All that a guest can reach outside its own memory.
pub(super) trait HostIo {
    /// Takes what has come on the channel; zero bytes where the host has closed it.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Sends on the channel, as much as there is room for.
    fn send(&mut self, from: &[u8]) -> Result<usize, Errno>;

    /// Waits for the channel to be ready in a wanted way, or for the time to pass. Without either it returns at once.
    fn wait(&mut self, wanted: Readiness, timeout: Option<Duration>) -> Readiness;

    /// Takes what the guest says outside the channel.
    fn write_diagnostics(&mut self, bytes: &[u8]);

    /// Fills bytes that nobody can guess.
    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), Errno>;

    /// The time since the epoch, or since the machine started.
    fn clock(&self, clock: Clock) -> Duration;
}

/// What a time is counted from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Realtime,
    Monotonic,
    /// Processor time that was used.
    ProcessCpu,
}

/// Why a call does not return a value.
enum CallFailure {
    Errno(Errno),
    Exit(GuestExit),
}

impl From<Errno> for CallFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

type CallResult = Result<u64, CallFailure>;

/// What answers the guest's system calls.
pub(super) struct Kernel<O> {
    space: AddressSpace,
    heap: Heap,
    disk: Disk,
    descriptors: Descriptors,
    /// The folder that relative paths start at.
    cwd: NodeRef,
    host: O,
}

impl<O: HostIo> Kernel<O> {
    /// A kernel for a program that is in this memory, with its heap after it.
    pub(super) fn new(space: AddressSpace, heap: u64, capacity: Capacity, host: O) -> Self {
        let disk = Disk::new(capacity, &[WORKSPACE, "/tmp"]);
        let cwd = disk.resolve(ROOT, WORKSPACE.as_bytes()).and_then(|it| disk.acquire(it));
        let cwd = cwd.unwrap_or_else(|_| Rc::new(ROOT));
        let descriptors = Descriptors::new(capacity.files);
        Self { space, heap: Heap::new(heap), disk, descriptors, cwd, host }
    }

    pub(super) fn space(&self) -> &AddressSpace {
        &self.space
    }

    #[cfg(test)]
    pub(super) fn into_host(self) -> O {
        self.host
    }

    /// Answers a system call.
    pub(super) fn call(&mut self, call: Call) -> CallOutcome {
        if let Some(base) = process::thread_pointer_request(call) {
            return CallOutcome::SetThreadPointer(base);
        }
        match self.dispatch(call) {
            Ok(value) => CallOutcome::Return(value),
            Err(CallFailure::Errno(errno)) => {
                CallOutcome::Return(i64::from(errno.raw_os_error()).wrapping_neg().cast_unsigned())
            }
            Err(CallFailure::Exit(exit)) => CallOutcome::Exit(exit),
        }
    }

    /// Reads a number of the guest's.
    fn read_array<const N: usize>(&self, at: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.space.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `len` bytes, which the caller has bounded.
    fn read_bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        self.space.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a text that ends with a zero, page by page.
    fn read_c_string(&self, at: u64) -> Result<Vec<u8>, Errno> {
        const MAX: u64 = 4096;
        let mut text = Vec::new();
        while (text.len() as u64) < MAX {
            let next = at.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let len = (MAX - next % MAX).min(MAX - text.len() as u64);
            let piece = self.read_bytes(next, len as usize)?;
            if let Some(end) = piece.iter().position(|it| *it == 0) {
                text.extend(&piece[..end]);
                return Ok(text);
            }
            text.extend(piece);
        }
        Err(Errno::NAMETOOLONG)
    }

    fn open(&self, fd: u64) -> Result<Rc<OpenFile>, Errno> {
        self.descriptors.get(fd)
    }

    fn exit(exit: GuestExit) -> CallResult {
        Err(CallFailure::Exit(exit))
    }
}

impl<O> fmt::Debug for Kernel<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("space", &self.space).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! Handles the guest's system calls.
//!
//! This module supports a short list of system calls and handles them in the monitor's own memory. Only the bytes on
//! the channel, the time and randomness come from the host's kernel ([`HostIo`]). Every number from the guest is
//! treated as hostile, and every address is translated by [`AddressSpace`], which gives access to guest memory only.
//! The module does not depend on KVM, so it can be tested and fuzzed without KVM.

mod descriptors;
mod dispatch;
mod files;
#[cfg(any(test, fuzzing))]
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
#[cfg(fuzzing)]
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

/// Number and arguments of a system call that the guest makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) args: [u64; 6],
}

/// The result of a system call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    /// Returns this value to the guest. An error is encoded as a small negative number.
    Return(u64),
    /// Sets the thread pointer (`fs` base) to this address and returns zero.
    SetThreadPointer(u64),
    /// Ends the guest.
    Exit(GuestExit),
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GuestExit {
    /// It exited with this code.
    Code(i32),
    /// It sent itself this signal.
    Signal(i32),
    /// It did something that the processor does not permit.
    Fault(String),
    /// It is waiting for something that only another thread could do.
    Deadlock,
}

impl fmt::Display for GuestExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "the guest exited with code {code}"),
            Self::Signal(signal) => write!(f, "the guest was ended by signal {signal}"),
            Self::Fault(what) => write!(f, "the guest {what}"),
            Self::Deadlock => write!(f, "the guest waits for another thread, but it has only one"),
        }
    }
}

/// The only functions through which a guest can reach anything outside the monitor's memory.
pub(super) trait HostIo {
    /// Receives bytes from the channel and returns their number, which is zero once the host has closed the channel.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Sends as many bytes as the channel accepts, and returns their number.
    fn send(&mut self, from: &[u8]) -> Result<usize, Errno>;

    /// Waits until the channel is ready for one of the wanted operations or the timeout has passed. Returns immediately
    /// if no operation is wanted and there is no timeout.
    fn wait(&mut self, wanted: Readiness, timeout: Option<Duration>) -> Readiness;

    /// Writes diagnostic output of the guest, which does not go through the channel.
    fn write_diagnostics(&mut self, bytes: &[u8]);

    /// Fills a buffer with unpredictable bytes.
    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), Errno>;

    /// Reads a clock.
    fn clock(&self, clock: Clock) -> Duration;
}

/// A clock that the guest can read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Realtime,
    Monotonic,
    /// Processor time used by this process.
    ProcessCpu,
}

/// The error returned when a system call fails or ends the guest.
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

/// Handles the guest's system calls.
pub(super) struct Kernel<O> {
    space: AddressSpace,
    heap: Heap,
    disk: Disk,
    descriptors: Descriptors,
    /// The current directory, at which relative paths start.
    cwd: NodeRef,
    host: O,
}

impl<O: HostIo> Kernel<O> {
    /// Creates a kernel for a program that is loaded in `space` and whose heap starts at the address `heap`.
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

    /// Handles a system call.
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

    /// Reads a fixed number of bytes from guest memory.
    fn read_array<const N: usize>(&self, at: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.space.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `len` bytes from guest memory. The caller has to limit `len`.
    fn read_bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        self.space.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a NUL-terminated string from guest memory, page by page.
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

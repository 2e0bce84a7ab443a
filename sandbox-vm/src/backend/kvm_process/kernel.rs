//! Handles the guest's system calls.
//!
//! This module supports a short list of system calls and handles them in the monitor's own memory. Only the bytes on
//! the channel, the time and randomness come from the host's kernel ([`HostIo`]). Every number from the guest is
//! treated as hostile, and every address is translated by [`AddressSpace`], which gives access to guest memory only.
//! The module does not depend on KVM, so it can be tested and fuzzed without KVM.

mod call;
mod descriptor_calls;
mod descriptors;
mod dispatch;
mod files;
#[cfg(test)]
pub(super) mod fuzz;
mod host;
mod layout;
mod memory;
mod poll;
mod process;
mod streams;
mod transfer;

use std::{fmt, rc::Rc};

use rustix::io::Errno;

pub(super) use self::{
    call::{Call, CallOutcome, GuestExit},
    host::{Clock, HostIo, Readiness},
};
use self::{
    call::{CallFailure, CallResult},
    descriptors::{Descriptors, OpenFile},
};
use super::{
    disk::{Capacity, Disk, NodeRef, ROOT},
    library::Library,
    space::AddressSpace,
};
use crate::spec::WORKSPACE;

/// The heap, which starts after the program. Only its end can be moved.
#[derive(Debug)]
struct Heap {
    start: u64,
    end: u64,
}

/// Handles the guest's system calls.
pub(super) struct Kernel<O> {
    space: AddressSpace,
    heap: Heap,
    disk: Disk,
    /// Host files that the guest can open, in addition to the files on its disk.
    libraries: Vec<Rc<Library>>,
    descriptors: Descriptors,
    /// The current directory, at which relative paths start.
    cwd: NodeRef,
    host: O,
}

impl<O: HostIo> Kernel<O> {
    /// Creates a kernel for a program that is loaded in `space` and whose heap starts at the address `heap`. The guest
    /// can open `libraries` by their paths.
    pub(super) fn new(
        space: AddressSpace,
        heap: u64,
        libraries: Vec<Rc<Library>>,
        capacity: Capacity,
        host: O,
    ) -> Self {
        let disk = Disk::new(capacity, &[WORKSPACE, "/tmp"]);
        let cwd = disk.resolve(ROOT, WORKSPACE.as_bytes()).and_then(|it| disk.acquire(it));
        let cwd = cwd.unwrap_or_else(|_| Rc::new(ROOT));
        let descriptors = Descriptors::new(capacity.files);
        let heap = Heap { start: heap, end: heap };
        Self { space, heap, disk, libraries, descriptors, cwd, host }
    }

    pub(super) fn space(&self) -> &AddressSpace {
        &self.space
    }

    #[cfg(test)]
    pub(super) fn into_host(self) -> O {
        self.host
    }

    pub(super) fn call(&mut self, call: Call) -> CallOutcome {
        if let Some(base) = call.thread_pointer_request() {
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

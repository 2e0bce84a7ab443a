//! System calls and their results.

use std::fmt;

use nix::libc;
use rustix::io::Errno;

use crate::backend::kvm_process::space::USER;

/// Number and arguments of a system call that the guest makes.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::kvm_process) struct Call {
    pub(in crate::backend::kvm_process) number: u64,
    pub(in crate::backend::kvm_process) args: [u64; 6],
}

#[derive(Debug)]
pub(in crate::backend::kvm_process) enum CallOutcome {
    /// Returns this value to the guest. An error is encoded as a small negative number.
    Return(u64),
    /// Sets the thread pointer (`fs` base) to this address and returns zero.
    SetThreadPointer(u64),
    Exit(GuestExit),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::kvm_process) enum GuestExit {
    Code(i32),
    /// The guest sent itself this signal.
    Signal(i32),
    /// The guest did something that the processor does not permit.
    Fault(String),
    /// The guest is waiting for something that only another thread could do, but it has only one thread.
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

impl Call {
    /// Returns the requested thread pointer if the call sets the thread pointer.
    pub(super) fn thread_pointer_request(self) -> Option<u64> {
        const ARCH_SET_FS: u64 = 0x1002;
        let [what, base, ..] = self.args;
        let is_it = self.number == libc::SYS_arch_prctl as u64 && what == ARCH_SET_FS;
        (is_it && USER.contains(&base)).then_some(base)
    }
}

/// The error returned when a system call fails or ends the guest.
pub(super) enum CallFailure {
    Errno(Errno),
    Exit(GuestExit),
}

impl From<Errno> for CallFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

pub(super) type CallResult = Result<u64, CallFailure>;

//! The part of the host that a guest can reach.

use std::time::Duration;

use nix::libc;
use rustix::io::Errno;

/// The only functions through which a guest can reach anything outside the monitor's memory.
pub(in crate::backend::kvm_process) trait HostIo {
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

    fn clock(&self, clock: Clock) -> Duration;
}

#[derive(Clone, Copy, Debug)]
pub(in crate::backend::kvm_process) enum Clock {
    Realtime,
    Monotonic,
    /// CPU time used by this process.
    ProcessCpu,
}

/// Operations that a file is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backend::kvm_process) struct Readiness {
    pub(in crate::backend::kvm_process) input: bool,
    pub(in crate::backend::kvm_process) output: bool,
    /// Whether the other end is closed.
    pub(in crate::backend::kvm_process) hangup: bool,
}

impl Readiness {
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            input: self.input || other.input,
            output: self.output || other.output,
            hangup: self.hangup || other.hangup,
        }
    }

    /// Returns the bits that `poll` and `epoll` share.
    pub(super) fn bits(self) -> u32 {
        let bit = |is: bool, bits: i32| if is { bits.cast_unsigned() } else { 0 };
        bit(self.input, libc::EPOLLIN)
            | bit(self.output, libc::EPOLLOUT)
            | bit(self.hangup, libc::EPOLLHUP | libc::EPOLLRDHUP)
    }
}

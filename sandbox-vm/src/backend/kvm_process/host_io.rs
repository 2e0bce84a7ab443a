//! The guest's access to the host, which consists of the channel, time, randomness and diagnostic output.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    rand::GetRandomFlags,
    time::ClockId,
};

use super::kernel::{Clock, HostIo, Readiness};

/// Prefix of each line of diagnostic output that the guest writes. It distinguishes the line from output of the
/// monitor.
const LINE_PREFIX: &[u8] = b"guest: ";

/// Implementation of [`HostIo`] that uses the real host.
#[derive(Debug)]
pub(super) struct SystemHost {
    channel: UnixStream,
    is_mid_line: bool,
}

impl SystemHost {
    pub(super) fn new(channel: UnixStream) -> io::Result<Self> {
        channel.set_nonblocking(true)?;
        Ok(Self { channel, is_mid_line: false })
    }
}

impl HostIo for SystemHost {
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        self.channel.read(into).map_err(|it| errno(&it))
    }

    fn send(&mut self, from: &[u8]) -> Result<usize, Errno> {
        self.channel.write(from).map_err(|it| errno(&it))
    }

    fn wait(&mut self, wanted: Readiness, timeout: Option<Duration>) -> Readiness {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, wanted.input);
        flags.set(PollFlags::OUT, wanted.output);
        // If the caller does not wait for the channel, do not poll it, because a hang-up would then end the wait before
        // the timeout.
        let mut watched = [PollFd::new(&self.channel, flags)];
        let watched = if flags.is_empty() { &mut [][..] } else { &mut watched[..] };
        let timeout = timeout.map(|it| Timespec {
            tv_sec: i64::try_from(it.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: it.subsec_nanos().into(),
        });
        if flags.is_empty() && timeout.is_none() {
            return Readiness::default();
        }
        // A signal may end the wait early. Callers can handle that.
        let _ = rustix::event::poll(watched, timeout.as_ref());
        let events = watched.first().map_or(PollFlags::empty(), PollFd::revents);
        let hangup = events.intersects(PollFlags::HUP | PollFlags::ERR);
        Readiness {
            input: hangup || events.contains(PollFlags::IN),
            output: hangup || events.contains(PollFlags::OUT),
            hangup,
        }
    }

    fn write_diagnostics(&mut self, bytes: &[u8]) {
        let mut prefixed = Vec::new();
        for byte in bytes {
            if !self.is_mid_line {
                prefixed.extend(LINE_PREFIX);
            }
            prefixed.push(*byte);
            self.is_mid_line = *byte != b'\n';
        }
        // Ignore errors, because the reader may have closed its end.
        let _ = io::stderr().write_all(&prefixed);
    }

    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), Errno> {
        let mut rest = into;
        while !rest.is_empty() {
            let count = rustix::rand::getrandom(&mut *rest, GetRandomFlags::empty())?;
            rest = &mut std::mem::take(&mut rest)[count..];
        }
        Ok(())
    }

    fn clock(&self, clock: Clock) -> Duration {
        let clock = match clock {
            Clock::Realtime => ClockId::Realtime,
            Clock::Monotonic => ClockId::Monotonic,
            Clock::ProcessCpu => ClockId::ProcessCPUTime,
        };
        let time = rustix::time::clock_gettime(clock);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

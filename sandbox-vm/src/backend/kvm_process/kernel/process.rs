//! System calls for the process itself, time, randomness and signals.

use std::time::Duration;

use nix::libc;
use rustix::io::Errno;

use super::{
    Kernel,
    call::{CallFailure, CallResult, GuestExit},
    dispatch::process_id,
    host::{Clock, HostIo, Readiness},
    layout,
};

/// Maximum number of random bytes that one call returns.
const MAX_RANDOM: u64 = 1 << 16;

/// Maximum duration of a wait. No host waits longer than this for a guest.
const MAX_WAIT: Duration = Duration::from_secs(86_400 * 365);

impl<O: HostIo> Kernel<O> {
    pub(super) fn clock_gettime(&mut self, clock: u64, at: u64) -> CallResult {
        let now = self.host.clock(parse_clock(clock)?);
        self.space.write(at, &layout::time(now))?;
        Ok(0)
    }

    pub(super) fn clock_getres(&mut self, clock: u64, at: u64) -> CallResult {
        parse_clock(clock)?;
        if at != 0 {
            self.space.write(at, &layout::time(Duration::from_nanos(1)))?;
        }
        Ok(0)
    }

    pub(super) fn nanosleep(&mut self, at: u64) -> CallResult {
        let wait = self.duration(at)?;
        self.host.wait(Readiness::default(), Some(wait));
        Ok(0)
    }

    pub(super) fn clock_nanosleep(&mut self, clock: u64, flags: u64, at: u64) -> CallResult {
        let (clock, time) = (parse_clock(clock)?, self.duration(at)?);
        let wait = match flags {
            0 => time,
            _ => time.saturating_sub(self.host.clock(clock)),
        };
        self.host.wait(Readiness::default(), Some(wait.min(MAX_WAIT)));
        Ok(0)
    }

    fn duration(&self, at: u64) -> Result<Duration, Errno> {
        let bytes = self.read_array::<16>(at)?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::try_from(i64::from_le_bytes(number)).map_err(|_| Errno::INVAL)
        };
        let nanoseconds = u32::try_from(number(8)?).ok().filter(|it| *it < 1_000_000_000);
        let time = Duration::new(number(0)?, nanoseconds.ok_or(Errno::INVAL)?);
        Ok(time)
    }

    pub(super) fn getrandom(&mut self, at: u64, len: u64) -> CallResult {
        let len = len.min(MAX_RANDOM);
        let mut bytes = vec![0; len as usize];
        self.host.fill_random(&mut bytes)?;
        self.space.write(at, &bytes)?;
        Ok(len)
    }

    /// Handles `futex`. There is only one thread, so no thread is ever woken, and a wait ends at its timeout or never.
    /// A wait that would never end terminates the guest.
    pub(super) fn futex(&mut self, at: u64, what: u64, value: u64, time: u64) -> CallResult {
        let command = what as i32 & libc::FUTEX_CMD_MASK;
        match command {
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Ok(0),
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
                if self.read_array::<4>(at)? != (value as u32).to_le_bytes() {
                    return Err(Errno::AGAIN.into());
                }
                if time == 0 {
                    return Err(CallFailure::Exit(GuestExit::Deadlock));
                }
                let mut wait = self.duration(time)?;
                if command == libc::FUTEX_WAIT_BITSET {
                    let is_epoch = what as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
                    let clock = if is_epoch { Clock::Realtime } else { Clock::Monotonic };
                    wait = wait.saturating_sub(self.host.clock(clock));
                }
                self.host.wait(Readiness::default(), Some(wait.min(MAX_WAIT)));
                Err(Errno::TIMEDOUT.into())
            }
            _ => Err(Errno::NOSYS.into()),
        }
    }

    /// Reports that the guest may run on the only processor.
    pub(super) fn affinity(&mut self, len: u64, at: u64) -> CallResult {
        if len < 8 {
            return Err(Errno::INVAL.into());
        }
        self.space.write(at, &1_u64.to_le_bytes())?;
        Ok(8)
    }

    /// Reports resource limits. The guest cannot change them.
    pub(super) fn resource_limits(&mut self, what: u64, new: u64, old: u64) -> CallResult {
        if new != 0 {
            return Err(Errno::PERM.into());
        }
        let limit = match u32::try_from(what) {
            Ok(libc::RLIMIT_STACK) => 1 << 20,
            Ok(libc::RLIMIT_CORE) => 0,
            _ => u64::MAX,
        };
        if old != 0 {
            self.space.write(old, &[limit.to_le_bytes(), limit.to_le_bytes()].concat())?;
        }
        Ok(0)
    }

    pub(super) fn usage(&mut self, at: u64) -> CallResult {
        let used = self.host.clock(Clock::ProcessCpu);
        self.space.write(at, &layout::rusage(used))?;
        Ok(0)
    }

    pub(super) fn uname(&mut self, at: u64) -> CallResult {
        self.space
            .write(at, &layout::utsname(["Linux", "sandbox", "6.1.0", "#1", "x86_64", ""]))?;
        Ok(0)
    }

    /// Reports that no signal handling was set up before, and ignores the new setting, because no signal is ever
    /// delivered.
    pub(super) fn ignore_signal_setup(&mut self, old: u64, len: usize) -> CallResult {
        if old != 0 {
            self.space.write(old, &vec![0; len])?;
        }
        Ok(0)
    }

    /// Handles the sending of a signal. A signal that the guest sends to itself ends the guest. There is no other
    /// process that it could signal.
    pub(super) fn send_signal(&mut self, to: u64, signal: u64) -> CallResult {
        let signal = signal as i32;
        match to {
            it if it != process_id() => Err(Errno::SRCH.into()),
            _ if signal == 0 => Ok(0),
            _ if (1..=64).contains(&signal) => Self::exit(GuestExit::Signal(signal)),
            _ => Err(Errno::INVAL.into()),
        }
    }
}

fn parse_clock(clock: u64) -> Result<Clock, Errno> {
    match clock as i32 {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => Ok(Clock::Realtime),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => Ok(Clock::Monotonic),
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Ok(Clock::ProcessCpu),
        _ => Err(Errno::INVAL),
    }
}

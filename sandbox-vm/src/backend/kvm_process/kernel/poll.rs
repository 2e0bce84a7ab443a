//! The system calls `poll` and `epoll`, which wait until files are ready.

use std::{cell::RefCell, rc::Rc, time::Duration};

use nix::libc;
use rustix::io::Errno;

use super::{
    Kernel,
    call::{CallFailure, CallResult, GuestExit},
    descriptors::{Interest, Interests, Object, OpenFile},
    host::{Clock, HostIo, Readiness},
};

/// Size of an `epoll` event in guest memory, in bytes.
const EPOLL_EVENT: usize = 12;

/// Size of a `poll` entry in guest memory, in bytes.
const POLL_ENTRY: usize = 8;

const MAX: u64 = 1024;

impl<O: HostIo> Kernel<O> {
    pub(super) fn epoll_ctl(&mut self, poll: u64, what: u64, fd: u64, event: u64) -> CallResult {
        let (poll, open) = (self.open(poll)?, self.open(fd)?);
        let interests = interests(&poll)?;
        if matches!(open.object, Object::Node(..) | Object::Epoll(_)) {
            return Err(Errno::PERM.into());
        }
        let fd = u64::from(fd as u32);
        let mut watched = interests.borrow_mut();
        let is_watched = watched.0.get(&fd).is_some_and(|it| it.open.ptr_eq(&Rc::downgrade(&open)));
        let what = what as i32;
        match (what, is_watched) {
            (libc::EPOLL_CTL_ADD, true) => Err(Errno::EXIST.into()),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => Err(Errno::NOENT.into()),
            (libc::EPOLL_CTL_DEL, true) => {
                watched.0.remove(&fd);
                Ok(0)
            }
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _) => {
                let [a, b, c, d, data @ ..] = self.read_array::<EPOLL_EVENT>(event)?;
                let events = u32::from_le_bytes([a, b, c, d]);
                let data = u64::from_le_bytes(data);
                let open = Rc::downgrade(&open);
                watched.0.insert(fd, Interest { open, events, data, reported: (None, None) });
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn epoll_wait(&mut self, poll: u64, at: u64, max: u64, timeout: u64) -> CallResult {
        let poll = self.open(poll)?;
        let interests = interests(&poll)?;
        let max = match max as i32 {
            1.. => max.min(MAX) as usize,
            _ => return Err(Errno::INVAL.into()),
        };
        self.check_writable(at, (max * EPOLL_EVENT) as u64)?;
        let deadline = self.deadline(timeout);
        loop {
            let mut wanted = Readiness::default();
            let events = self.collect_events(&mut interests.borrow_mut(), max, &mut wanted);
            if !events.is_empty() {
                self.space.write(at, &events)?;
                return Ok((events.len() / EPOLL_EVENT) as u64);
            }
            if self.wait_or_expire(deadline, wanted)? {
                return Ok(0);
            }
        }
    }

    /// Returns the events to report, encoded for guest memory. If there are none to report for the channel, adds to
    /// `wanted` the events to wait for.
    fn collect_events(
        &mut self,
        interests: &mut Interests,
        max: usize,
        wanted: &mut Readiness,
    ) -> Vec<u8> {
        interests.0.retain(|_, it| it.open.strong_count() > 0);
        let mut events = Vec::new();
        for interest in interests.0.values_mut() {
            let Some(open) = interest.open.upgrade() else { continue };
            let wants = interest.wants(&open);
            let ready = self.readiness(&open, wants);
            let reported = Readiness {
                input: ready.input && wants.input,
                output: ready.output && wants.output,
                hangup: ready.hangup && wants.hangup,
            };
            if reported == Readiness::default() {
                if matches!(open.object, Object::Channel(_)) {
                    *wanted = wanted.or(wants);
                }
            } else if events.len() < max * EPOLL_EVENT {
                let (input, output) = open.edge_counts();
                if reported.input || reported.hangup {
                    interest.reported.0 = Some(input);
                }
                if reported.output || reported.hangup {
                    interest.reported.1 = Some(output);
                }
                // A hang-up is reported even if the guest did not request it.
                let bits = reported.bits() & (interest.events | libc::EPOLLHUP.cast_unsigned());
                events.extend(bits.to_le_bytes());
                events.extend(interest.data.to_le_bytes());
            }
        }
        events
    }

    pub(super) fn poll(&mut self, at: u64, count: u64, timeout: u64) -> CallResult {
        if count > MAX {
            return Err(Errno::INVAL.into());
        }
        let mut entries = self.read_bytes(at, count as usize * POLL_ENTRY)?;
        let deadline = self.deadline(timeout);
        loop {
            let (mut found, mut wanted) = (0, Readiness::default());
            for entry in entries.chunks_exact_mut(POLL_ENTRY) {
                let (reported, wants) = self.poll_entry(entry);
                wanted = wanted.or(wants);
                entry[6..].copy_from_slice(&reported.to_le_bytes());
                found += u64::from(reported != 0);
            }
            if found > 0 || self.wait_or_expire(deadline, wanted)? {
                self.space.write(at, &entries)?;
                return Ok(found);
            }
        }
    }

    /// Returns the events to report for a `poll` entry. Also returns the events to wait for on the channel, which are
    /// needed if no entry has an event to report.
    fn poll_entry(&mut self, entry: &[u8]) -> (u16, Readiness) {
        let number =
            |at: usize| entry.get(at..at + 2).map_or(0, |it| u16::from_le_bytes([it[0], it[1]]));
        let fd = u32::from(number(0)) | u32::from(number(2)) << 16;
        let events = number(4);
        if fd.cast_signed() < 0 {
            return (0, Readiness::default());
        }
        let Ok(open) = self.open(u64::from(fd)) else {
            return (libc::POLLNVAL.cast_unsigned(), Readiness::default());
        };
        let has = |flag: i16| events & flag.cast_unsigned() != 0;
        let wants =
            Readiness { input: has(libc::POLLIN), output: has(libc::POLLOUT), hangup: false };
        let ready = self.readiness(&open, wants).bits() as u16;
        let reported = ready & (events | libc::POLLHUP.cast_unsigned());
        match open.object {
            Object::Channel(_) => (reported, wants),
            _ => (reported, Readiness::default()),
        }
    }

    /// Returns the operations that a file is ready for now. For the channel, checks only the operations in `wants`.
    fn readiness(&mut self, open: &OpenFile, wants: Readiness) -> Readiness {
        match open.object {
            Object::Channel(_) if wants.input || wants.output => {
                self.host.wait(wants, Some(Duration::ZERO))
            }
            _ => open.readiness(),
        }
    }

    /// Returns the time at which a wait of this many milliseconds ends, or `None` for a negative number, which means no
    /// timeout.
    fn deadline(&self, milliseconds: u64) -> Option<Duration> {
        let milliseconds = u64::try_from(milliseconds as i32).ok()?;
        Some(self.host.clock(Clock::Monotonic) + Duration::from_millis(milliseconds))
    }

    /// Waits until the channel is ready or the deadline has passed, and returns `false`. Returns `true` without waiting
    /// if the deadline has already passed.
    fn wait_or_expire(
        &mut self,
        deadline: Option<Duration>,
        wanted: Readiness,
    ) -> Result<bool, CallFailure> {
        let now = self.host.clock(Clock::Monotonic);
        let left = deadline.map(|it| it.saturating_sub(now));
        if left == Some(Duration::ZERO) {
            return Ok(true);
        }
        let wanted = Readiness { hangup: false, ..wanted };
        if left.is_none() && wanted == Readiness::default() {
            // The wait could never end, because no other thread could make a file ready.
            return Err(CallFailure::Exit(GuestExit::Deadlock));
        }
        self.host.wait(wanted, left);
        Ok(false)
    }
}

fn interests(open: &OpenFile) -> Result<&RefCell<Interests>, Errno> {
    match &open.object {
        Object::Epoll(interests) => Ok(interests),
        _ => Err(Errno::INVAL),
    }
}

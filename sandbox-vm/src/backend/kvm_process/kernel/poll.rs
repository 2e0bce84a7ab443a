//! Waiting until something is ready.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::{Rc, Weak},
    time::Duration,
};

use nix::libc;
use rustix::io::Errno;

use super::{
    Answer, Clock, End, Kernel, Outside,
    descriptors::{Object, Open},
};

/// What something is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backend::kvm_process) struct Ready {
    pub(in crate::backend::kvm_process) input: bool,
    pub(in crate::backend::kvm_process) output: bool,
    /// The other side is gone.
    pub(in crate::backend::kvm_process) hangup: bool,
}

impl Ready {
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            input: self.input || other.input,
            output: self.output || other.output,
            hangup: self.hangup || other.hangup,
        }
    }

    /// As the bits that `poll` and `epoll` share.
    fn bits(self) -> u32 {
        let bit = |is: bool, bits: i32| if is { bits.cast_unsigned() } else { 0 };
        bit(self.input, libc::EPOLLIN)
            | bit(self.output, libc::EPOLLOUT)
            | bit(self.hangup, libc::EPOLLHUP | libc::EPOLLRDHUP)
    }
}

/// What one `epoll` descriptor watches, by descriptor.
#[derive(Debug, Default)]
pub(super) struct Interests(BTreeMap<u64, Interest>);

#[derive(Debug)]
struct Interest {
    open: Weak<Open>,
    events: u32,
    data: u64,
    /// The edges that were told of last; `None` before anything was told, or where it was asked for anew.
    told: (Option<u64>, Option<u64>),
}

impl Interest {
    fn is(&self, flag: i32) -> bool {
        self.events & flag.cast_unsigned() != 0
    }

    /// What is to be told of it now: all it is ready for, or only what is news.
    fn wants(&self, open: &Open) -> Ready {
        let (input, output) = open.edges();
        let is_news = |told: Option<u64>, edge| !self.is(libc::EPOLLET) || told != Some(edge);
        Ready {
            input: self.is(libc::EPOLLIN) && is_news(self.told.0, input),
            output: self.is(libc::EPOLLOUT) && is_news(self.told.1, output),
            hangup: is_news(self.told.0, input) || is_news(self.told.1, output),
        }
    }
}

/// The size of an event as the guest reads it.
const EVENT: usize = 12;

/// The size of an entry of `poll`.
const POLLED: usize = 8;

/// How many events, or entries, one call is about at most.
const MAX: u64 = 1024;

impl<O: Outside> Kernel<O> {
    pub(super) fn epoll_ctl(&mut self, poll: u64, what: u64, fd: u64, event: u64) -> Answer {
        let (poll, open) = (self.open(poll)?, self.open(fd)?);
        let interests = interests(&poll)?;
        if matches!(open.object, Object::Node(..) | Object::Poll(_)) {
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
                let [a, b, c, d, data @ ..] = self.number::<EVENT>(event)?;
                let events = u32::from_le_bytes([a, b, c, d]);
                let data = u64::from_le_bytes(data);
                let open = Rc::downgrade(&open);
                watched.0.insert(fd, Interest { open, events, data, told: (None, None) });
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn epoll_wait(&mut self, poll: u64, at: u64, most: u64, patience: u64) -> Answer {
        let poll = self.open(poll)?;
        let interests = interests(&poll)?;
        let most = match most as i32 {
            1.. => most.min(MAX) as usize,
            _ => return Err(Errno::INVAL.into()),
        };
        self.check_room(at, (most * EVENT) as u64)?;
        let deadline = self.deadline(patience);
        loop {
            let mut wanted = Ready::default();
            let events = self.news(&mut interests.borrow_mut(), most, &mut wanted);
            if !events.is_empty() {
                self.space.write(at, &events)?;
                return Ok((events.len() / EVENT) as u64);
            }
            if self.is_over(deadline, wanted)? {
                return Ok(0);
            }
        }
    }

    /// What there is to tell, and what is wanted of the channel otherwise.
    fn news(&mut self, interests: &mut Interests, most: usize, wanted: &mut Ready) -> Vec<u8> {
        interests.0.retain(|_, it| it.open.strong_count() > 0);
        let mut events = Vec::new();
        for interest in interests.0.values_mut() {
            let Some(open) = interest.open.upgrade() else { continue };
            let wants = interest.wants(&open);
            let ready = self.readiness(&open, wants);
            let told = Ready {
                input: ready.input && wants.input,
                output: ready.output && wants.output,
                hangup: ready.hangup && wants.hangup,
            };
            if told == Ready::default() {
                if matches!(open.object, Object::Channel(_)) {
                    *wanted = wanted.or(wants);
                }
            } else if events.len() < most * EVENT {
                let (input, output) = open.edges();
                interest.told.0 =
                    if told.input || told.hangup { Some(input) } else { interest.told.0 };
                interest.told.1 =
                    if told.output || told.hangup { Some(output) } else { interest.told.1 };
                // A hangup is told with the direction that ends by it.
                let bits = told.bits() & (interest.events | libc::EPOLLHUP.cast_unsigned());
                events.extend(bits.to_le_bytes());
                events.extend(interest.data.to_le_bytes());
            }
        }
        events
    }

    pub(super) fn poll(&mut self, at: u64, count: u64, patience: u64) -> Answer {
        if count > MAX {
            return Err(Errno::INVAL.into());
        }
        let mut entries = self.bytes(at, count as usize * POLLED)?;
        let deadline = self.deadline(patience);
        loop {
            let (mut found, mut wanted) = (0, Ready::default());
            for entry in entries.chunks_exact_mut(POLLED) {
                let (told, wants) = self.polled(entry);
                wanted = wanted.or(wants);
                entry[6..].copy_from_slice(&told.to_le_bytes());
                found += u64::from(told != 0);
            }
            if found > 0 || self.is_over(deadline, wanted)? {
                self.space.write(at, &entries)?;
                return Ok(found);
            }
        }
    }

    /// What is to be told of an entry of `poll`, and what is wanted of the channel otherwise.
    fn polled(&mut self, entry: &[u8]) -> (u16, Ready) {
        let number =
            |at: usize| entry.get(at..at + 2).map_or(0, |it| u16::from_le_bytes([it[0], it[1]]));
        let fd = u32::from(number(0)) | u32::from(number(2)) << 16;
        let events = number(4);
        if fd.cast_signed() < 0 {
            return (0, Ready::default());
        }
        let Ok(open) = self.open(u64::from(fd)) else {
            return (libc::POLLNVAL.cast_unsigned(), Ready::default());
        };
        let is = |flag: i16| events & flag.cast_unsigned() != 0;
        let wants = Ready { input: is(libc::POLLIN), output: is(libc::POLLOUT), hangup: false };
        let ready = self.readiness(&open, wants).bits() as u16;
        let told = ready & (events | libc::POLLHUP.cast_unsigned());
        match open.object {
            Object::Channel(_) => (told, wants),
            _ => (told, Ready::default()),
        }
    }

    /// What something is ready for now; the outside is asked only for what is wanted of it.
    fn readiness(&mut self, open: &Open, wants: Ready) -> Ready {
        match open.object {
            Object::Channel(_) if wants.input || wants.output => {
                self.outside.wait(wants, Some(Duration::ZERO))
            }
            _ => open.ready(),
        }
    }

    /// When a wait of so many milliseconds is over; a negative number is for ever.
    fn deadline(&self, milliseconds: u64) -> Option<Duration> {
        let milliseconds = u64::try_from(milliseconds as i32).ok()?;
        Some(self.outside.clock(Clock::Start) + Duration::from_millis(milliseconds))
    }

    /// Waits for the channel, and says whether the time is over.
    fn is_over(
        &mut self,
        deadline: Option<Duration>,
        wanted: Ready,
    ) -> Result<bool, super::Failed> {
        let now = self.outside.clock(Clock::Start);
        let left = deadline.map(|it| it.saturating_sub(now));
        if left == Some(Duration::ZERO) {
            return Ok(true);
        }
        let wanted = Ready { hangup: false, ..wanted };
        if left.is_none() && wanted == Ready::default() {
            // Nobody else is there who could make anything ready.
            return Err(super::Failed::End(End::Stuck));
        }
        self.outside.wait(wanted, left);
        Ok(false)
    }
}

fn interests(open: &Open) -> Result<&RefCell<Interests>, Errno> {
    match &open.object {
        Object::Poll(interests) => Ok(interests),
        _ => Err(Errno::INVAL),
    }
}

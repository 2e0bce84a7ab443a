//! Reading and writing.

use std::rc::Rc;

use nix::libc;
use rustix::io::Errno;

use super::{
    Answer, End, Failed, Kernel, Outside,
    descriptors::{Object, Open},
    poll::Ready,
};
use crate::backend::kvm_process::disk::Kind;

/// How many bytes one call moves at most; more takes another call.
const MAX: u64 = 1 << 20;

/// How many pieces one call moves at most.
const MAX_PIECES: u64 = 1024;

/// A piece of guest memory: where it is, and how long.
type Piece = (u64, u64);

impl<O: Outside> Kernel<O> {
    pub(super) fn read(&mut self, fd: u64, at: u64, len: u64) -> Answer {
        let open = self.open(fd)?;
        self.fill(&open, &[(at, len)], Where::Next)
    }

    pub(super) fn read_at(&mut self, fd: u64, at: u64, len: u64, offset: u64) -> Answer {
        let open = self.open(fd)?;
        self.fill(&open, &[(at, len)], Where::At(offset))
    }

    pub(super) fn read_vector(&mut self, fd: u64, at: u64, count: u64) -> Answer {
        let (open, pieces) = (self.open(fd)?, self.pieces(at, count)?);
        self.fill(&open, &pieces, Where::Next)
    }

    pub(super) fn write(&mut self, fd: u64, at: u64, len: u64) -> Answer {
        let open = self.open(fd)?;
        self.drain(&open, &[(at, len)], Where::Next)
    }

    pub(super) fn write_at(&mut self, fd: u64, at: u64, len: u64, offset: u64) -> Answer {
        let open = self.open(fd)?;
        self.drain(&open, &[(at, len)], Where::At(offset))
    }

    pub(super) fn write_vector(&mut self, fd: u64, at: u64, count: u64) -> Answer {
        let (open, pieces) = (self.open(fd)?, self.pieces(at, count)?);
        self.drain(&open, &pieces, Where::Next)
    }

    /// Reads from what is a socket for the guest, which has one conversation and no addresses.
    pub(super) fn receive(
        &mut self,
        fd: u64,
        [at, len]: [u64; 2],
        flags: u64,
        address: u64,
    ) -> Answer {
        let open = self.conversation(fd, flags, address)?;
        self.fill(&open, &[(at, len)], Where::Next)
    }

    pub(super) fn send(
        &mut self,
        fd: u64,
        [at, len]: [u64; 2],
        flags: u64,
        address: u64,
    ) -> Answer {
        let open = self.conversation(fd, flags, address)?;
        self.drain(&open, &[(at, len)], Where::Next)
    }

    fn conversation(&self, fd: u64, flags: u64, address: u64) -> Result<Rc<Open>, Errno> {
        let open = self.open(fd)?;
        // No signal comes of a closed end in any case; nothing else of what could be asked for is there.
        if flags & !(libc::MSG_NOSIGNAL as u64) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        match open.object {
            Object::Channel(_) | Object::Pair(..) if address == 0 => Ok(open),
            Object::Channel(_) | Object::Pair(..) => Err(Errno::ISCONN),
            _ => Err(Errno::NOTSOCK),
        }
    }

    pub(super) fn seek(&mut self, fd: u64, offset: u64, from: u64) -> Answer {
        let open = self.open(fd)?;
        let Object::Node(held, _) = &open.object else { return Err(Errno::SPIPE.into()) };
        let base = match from as i32 {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => open.offset.get(),
            libc::SEEK_END => self.disk.facts(**held)?.size,
            _ => return Err(Errno::INVAL.into()),
        };
        let sum = base.checked_add_signed(offset.cast_signed());
        let to = sum.filter(|it| i64::try_from(*it).is_ok()).ok_or(Errno::INVAL)?;
        open.offset.set(to);
        Ok(to)
    }

    /// Whether the guest can write there; asked before anything is taken from where it would be lost.
    pub(super) fn check_room(&self, at: u64, len: u64) -> Result<(), Errno> {
        self.space.check_writable(at, usize::try_from(len).map_err(|_| Errno::FAULT)?)
    }

    fn pieces(&self, at: u64, count: u64) -> Result<Vec<Piece>, Errno> {
        if count > MAX_PIECES {
            return Err(Errno::INVAL);
        }
        let bytes = self.bytes(at, count as usize * 16)?;
        let number = |it: &[u8]| it.iter().rev().fold(0, |sum, it| sum << 8 | u64::from(*it));
        Ok(bytes.chunks_exact(16).map(|it| (number(&it[..8]), number(&it[8..]))).collect())
    }

    /// Reads into pieces of guest memory.
    fn fill(&mut self, open: &Rc<Open>, pieces: &[Piece], place: Where) -> Answer {
        if !open.may.read {
            return Err(Errno::BADF.into());
        }
        let asked = total(pieces);
        let pieces = bounded(pieces);
        for (at, len) in &pieces {
            self.check_room(*at, *len)?;
        }
        let bytes = self.take(open, total(&pieces) as usize, place)?;
        if (bytes.len() as u64) < asked {
            open.runs_dry();
        }
        let mut rest = bytes.as_slice();
        for (at, len) in pieces {
            let (piece, later) = rest.split_at(rest.len().min(len as usize));
            self.space.write(at, piece)?;
            rest = later;
        }
        Ok(bytes.len() as u64)
    }

    fn take(&mut self, open: &Rc<Open>, len: usize, place: Where) -> Result<Vec<u8>, Failed> {
        let wanted = Ready { input: true, ..Ready::default() };
        loop {
            let taken = match &open.object {
                Object::Channel(_) => {
                    let mut bytes = vec![0; len];
                    self.outside.receive(&mut bytes).map(|it| {
                        bytes.truncate(it);
                        bytes
                    })
                }
                Object::Null | Object::Words => Ok(Vec::new()),
                Object::Node(held, Kind::File) => {
                    let offset = place.of(open);
                    let bytes = self.disk.read(**held, offset, len)?.to_vec();
                    place.advance(open, offset, bytes.len());
                    Ok(bytes)
                }
                Object::Node(..) => Err(Errno::ISDIR),
                Object::Reader(it) | Object::Pair(it, _) => it.read(len),
                Object::Counter(_) if len < 8 => Err(Errno::INVAL),
                Object::Counter(it) => it.read().map(|it| it.to_le_bytes().to_vec()),
                Object::Writer(_) | Object::Poll(_) => Err(Errno::INVAL),
            };
            match taken {
                Err(Errno::AGAIN) => {
                    open.runs_dry();
                    self.wait_for(open, wanted)?;
                }
                taken => return Ok(taken?),
            }
        }
    }

    /// Writes pieces of guest memory.
    fn drain(&mut self, open: &Rc<Open>, pieces: &[Piece], place: Where) -> Answer {
        if !open.may.write {
            return Err(Errno::BADF.into());
        }
        let (mut bytes, asked) = (Vec::new(), total(pieces));
        for (at, len) in bounded(pieces) {
            bytes.extend(self.bytes(at, len as usize)?);
        }
        let wanted = Ready { output: true, ..Ready::default() };
        loop {
            let given = match &open.object {
                Object::Channel(_) => self.outside.send(&bytes),
                Object::Null => Ok(bytes.len()),
                Object::Words => {
                    self.outside.say(&bytes);
                    Ok(bytes.len())
                }
                Object::Node(held, Kind::File) => {
                    let offset = match open.may.append {
                        true => self.disk.facts(**held)?.size,
                        false => place.of(open),
                    };
                    self.disk.now = self.outside.clock(super::Clock::Epoch);
                    let given = self.disk.write(**held, offset, &bytes)?;
                    place.advance(open, offset, given);
                    Ok(given)
                }
                Object::Node(..) => Err(Errno::ISDIR),
                Object::Writer(it) | Object::Pair(_, it) => it.write(&bytes),
                Object::Counter(it) => match <[u8; 8]>::try_from(bytes.as_slice()) {
                    Ok(more) => it.add(u64::from_le_bytes(more)).map(|()| 8),
                    Err(_) => Err(Errno::INVAL),
                },
                Object::Reader(_) | Object::Poll(_) => Err(Errno::INVAL),
            };
            match given {
                Err(Errno::AGAIN) => {
                    open.runs_full();
                    self.wait_for(open, wanted)?;
                }
                given => {
                    let given = given? as u64;
                    if given < asked {
                        open.runs_full();
                    }
                    return Ok(given);
                }
            }
        }
    }

    /// Waits until a blocking call can go on. Of all things only the channel has somebody at its other end.
    fn wait_for(&mut self, open: &Open, wanted: Ready) -> Result<(), Failed> {
        if open.is_nonblocking.get() {
            return Err(Errno::AGAIN.into());
        }
        match open.object {
            Object::Channel(_) => {
                self.outside.wait(wanted, None);
                Ok(())
            }
            _ => Err(Failed::End(End::Stuck)),
        }
    }
}

/// Where in a file is read or written.
#[derive(Clone, Copy)]
enum Where {
    /// Where the last call ended.
    Next,
    At(u64),
}

impl Where {
    fn of(self, open: &Open) -> u64 {
        match self {
            Self::Next => open.offset.get(),
            Self::At(offset) => offset,
        }
    }

    fn advance(self, open: &Open, offset: u64, len: usize) {
        if let Self::Next = self {
            open.offset.set(offset.saturating_add(len as u64));
        }
    }
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, it| sum.saturating_add(it.1))
}

/// The first pieces, as far as one call goes.
fn bounded(pieces: &[Piece]) -> Vec<Piece> {
    let mut left = MAX;
    let cut = |(at, len): &Piece| {
        let len = (*len).min(left);
        left -= len;
        (*at, len)
    };
    pieces.iter().map(cut).filter(|it| it.1 > 0).collect()
}

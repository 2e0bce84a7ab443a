//! System calls that read and write.

use std::rc::Rc;

use nix::libc;
use rustix::io::Errno;

use super::{
    Kernel,
    call::{CallFailure, CallResult, GuestExit},
    descriptors::{Object, OpenFile},
    host::{Clock, HostIo, Readiness},
};
use crate::backend::kvm_process::disk::FileKind;

/// Maximum number of bytes that one call transfers. The guest needs several calls to transfer more.
const MAX: u64 = 1 << 20;

const MAX_IOVECS: u64 = 1024;

/// Address and length of a range of guest memory.
type IoVec = (u64, u64);

impl<O: HostIo> Kernel<O> {
    pub(super) fn read(&mut self, fd: u64, at: u64, len: u64, position: Position) -> CallResult {
        let open = self.open(fd)?;
        self.read_into(&open, &[(at, len)], position)
    }

    pub(super) fn read_vector(&mut self, fd: u64, at: u64, count: u64) -> CallResult {
        let (open, iovecs) = (self.open(fd)?, self.read_iovecs(at, count)?);
        self.read_into(&open, &iovecs, Position::Current)
    }

    pub(super) fn write(&mut self, fd: u64, at: u64, len: u64, position: Position) -> CallResult {
        let open = self.open(fd)?;
        self.write_from(&open, &[(at, len)], position)
    }

    pub(super) fn write_vector(&mut self, fd: u64, at: u64, count: u64) -> CallResult {
        let (open, iovecs) = (self.open(fd)?, self.read_iovecs(at, count)?);
        self.write_from(&open, &iovecs, Position::Current)
    }

    /// Reads from a socket. `address` has to be zero, because the guest's sockets are connected and have no addresses.
    pub(super) fn receive(
        &mut self,
        fd: u64,
        [at, len]: [u64; 2],
        flags: u64,
        address: u64,
    ) -> CallResult {
        let open = self.connected_socket(fd, flags, address)?;
        self.read_into(&open, &[(at, len)], Position::Current)
    }

    pub(super) fn send(
        &mut self,
        fd: u64,
        [at, len]: [u64; 2],
        flags: u64,
        address: u64,
    ) -> CallResult {
        let open = self.connected_socket(fd, flags, address)?;
        self.write_from(&open, &[(at, len)], Position::Current)
    }

    fn connected_socket(&self, fd: u64, flags: u64, address: u64) -> Result<Rc<OpenFile>, Errno> {
        let open = self.open(fd)?;
        // `MSG_NOSIGNAL` has no effect, because a closed end never raises a signal. Other flags are not supported.
        if flags & !(libc::MSG_NOSIGNAL as u64) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        match open.object {
            Object::Channel(_) | Object::SocketPair(..) if address == 0 => Ok(open),
            Object::Channel(_) | Object::SocketPair(..) => Err(Errno::ISCONN),
            _ => Err(Errno::NOTSOCK),
        }
    }

    pub(super) fn seek(&mut self, fd: u64, offset: u64, from: u64) -> CallResult {
        let open = self.open(fd)?;
        let size = match &open.object {
            Object::Node(node, _) => self.disk.metadata(**node)?.size,
            Object::Library(library) => library.len,
            _ => return Err(Errno::SPIPE.into()),
        };
        let base = match from as i32 {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => open.offset.get(),
            libc::SEEK_END => size,
            _ => return Err(Errno::INVAL.into()),
        };
        let sum = base.checked_add_signed(offset.cast_signed());
        let to = sum.filter(|it| i64::try_from(*it).is_ok()).ok_or(Errno::INVAL)?;
        open.offset.set(to);
        Ok(to)
    }

    /// Checks that the guest can write to the range. Called before data is taken from its source, because the data
    /// would be lost if it could not be written to guest memory.
    pub(super) fn check_writable(&self, at: u64, len: u64) -> Result<(), Errno> {
        self.space.check_writable(at, usize::try_from(len).map_err(|_| Errno::FAULT)?)
    }

    fn read_iovecs(&self, at: u64, count: u64) -> Result<Vec<IoVec>, Errno> {
        if count > MAX_IOVECS {
            return Err(Errno::INVAL);
        }
        let bytes = self.read_bytes(at, count as usize * 16)?;
        let number = |it: &[u8]| it.iter().rev().fold(0, |sum, it| sum << 8 | u64::from(*it));
        Ok(bytes.chunks_exact(16).map(|it| (number(&it[..8]), number(&it[8..]))).collect())
    }

    /// Reads from an open file into ranges of guest memory.
    fn read_into(
        &mut self,
        open: &Rc<OpenFile>,
        iovecs: &[IoVec],
        position: Position,
    ) -> CallResult {
        if !open.mode.read {
            return Err(Errno::BADF.into());
        }
        let requested = total(iovecs);
        let iovecs = truncate_to_limit(iovecs);
        for (at, len) in &iovecs {
            self.check_writable(*at, *len)?;
        }
        let bytes = self.read_object(open, total(&iovecs) as usize, position)?;
        if (bytes.len() as u64) < requested {
            open.mark_input_drained();
        }
        let mut rest = bytes.as_slice();
        for (at, len) in iovecs {
            let (piece, later) = rest.split_at(rest.len().min(len as usize));
            self.space.write(at, piece)?;
            rest = later;
        }
        Ok(bytes.len() as u64)
    }

    fn read_object(
        &mut self,
        open: &Rc<OpenFile>,
        len: usize,
        position: Position,
    ) -> Result<Vec<u8>, CallFailure> {
        let wanted = Readiness { input: true, ..Readiness::default() };
        loop {
            let taken = match &open.object {
                Object::Channel(_) => {
                    let mut bytes = vec![0; len];
                    self.host.receive(&mut bytes).map(|it| {
                        bytes.truncate(it);
                        bytes
                    })
                }
                Object::Null | Object::Diagnostics => Ok(Vec::new()),
                Object::Node(node, FileKind::File) => {
                    let offset = position.offset(open);
                    let bytes = self.disk.read(**node, offset, len)?.to_vec();
                    position.advance(open, offset, bytes.len());
                    Ok(bytes)
                }
                Object::Node(..) => Err(Errno::ISDIR),
                Object::Library(library) => {
                    let offset = position.offset(open);
                    let bytes = library.read(offset, len).map_err(|_| Errno::IO)?;
                    position.advance(open, offset, bytes.len());
                    Ok(bytes)
                }
                Object::PipeReader(it) | Object::SocketPair(it, _) => it.read(len),
                Object::EventFd(_) if len < 8 => Err(Errno::INVAL),
                Object::EventFd(it) => it.read().map(|it| it.to_le_bytes().to_vec()),
                Object::PipeWriter(_) | Object::Epoll(_) => Err(Errno::INVAL),
            };
            match taken {
                Err(Errno::AGAIN) => {
                    open.mark_input_drained();
                    self.wait_for(open, wanted)?;
                }
                taken => return Ok(taken?),
            }
        }
    }

    /// Writes ranges of guest memory to an open file.
    fn write_from(
        &mut self,
        open: &Rc<OpenFile>,
        iovecs: &[IoVec],
        position: Position,
    ) -> CallResult {
        if !open.mode.write {
            return Err(Errno::BADF.into());
        }
        let (mut bytes, requested) = (Vec::new(), total(iovecs));
        for (at, len) in truncate_to_limit(iovecs) {
            bytes.extend(self.read_bytes(at, len as usize)?);
        }
        let wanted = Readiness { output: true, ..Readiness::default() };
        loop {
            let written = match &open.object {
                Object::Channel(_) => self.host.send(&bytes),
                Object::Null => Ok(bytes.len()),
                Object::Diagnostics => {
                    self.host.write_diagnostics(&bytes);
                    Ok(bytes.len())
                }
                Object::Node(node, FileKind::File) => {
                    let offset = match open.mode.append {
                        true => self.disk.metadata(**node)?.size,
                        false => position.offset(open),
                    };
                    self.disk.now = self.host.clock(Clock::Realtime);
                    let written = self.disk.write(**node, offset, &bytes)?;
                    position.advance(open, offset, written);
                    Ok(written)
                }
                Object::Node(..) => Err(Errno::ISDIR),
                Object::PipeWriter(it) | Object::SocketPair(_, it) => it.write(&bytes),
                Object::EventFd(it) => match <[u8; 8]>::try_from(bytes.as_slice()) {
                    Ok(more) => it.add(u64::from_le_bytes(more)).map(|()| 8),
                    Err(_) => Err(Errno::INVAL),
                },
                Object::PipeReader(_) | Object::Epoll(_) | Object::Library(_) => Err(Errno::INVAL),
            };
            match written {
                Err(Errno::AGAIN) => {
                    open.mark_output_full();
                    self.wait_for(open, wanted)?;
                }
                written => {
                    let written = written? as u64;
                    if written < requested {
                        open.mark_output_full();
                    }
                    return Ok(written);
                }
            }
        }
    }

    /// Waits until a blocking call can continue. Ends the guest if the file is not the channel, because only the
    /// channel has another process at its other end.
    fn wait_for(&mut self, open: &OpenFile, wanted: Readiness) -> Result<(), CallFailure> {
        if open.is_nonblocking.get() {
            return Err(Errno::AGAIN.into());
        }
        match open.object {
            Object::Channel(_) => {
                self.host.wait(wanted, None);
                Ok(())
            }
            _ => Err(CallFailure::Exit(GuestExit::Deadlock)),
        }
    }
}

/// Position in a file at which to read or write.
#[derive(Clone, Copy)]
pub(super) enum Position {
    /// The position at which the last call ended.
    Current,
    At(u64),
}

impl Position {
    fn offset(self, open: &OpenFile) -> u64 {
        match self {
            Self::Current => open.offset.get(),
            Self::At(offset) => offset,
        }
    }

    fn advance(self, open: &OpenFile, offset: u64, len: usize) {
        if let Self::Current = self {
            open.offset.set(offset.saturating_add(len as u64));
        }
    }
}

fn total(iovecs: &[IoVec]) -> u64 {
    iovecs.iter().fold(0, |sum, it| sum.saturating_add(it.1))
}

/// Returns the ranges at the start of `iovecs`, up to the number of bytes that one call transfers.
fn truncate_to_limit(iovecs: &[IoVec]) -> Vec<IoVec> {
    let mut left = MAX;
    let cut = |(at, len): &IoVec| {
        let len = (*len).min(left);
        left -= len;
        (*at, len)
    };
    iovecs.iter().map(cut).filter(|it| it.1 > 0).collect()
}

//! System calls for file descriptors.

use std::{cell::RefCell, rc::Rc};

use nix::libc;
use rustix::io::Errno;

use super::{
    Kernel,
    call::CallResult,
    descriptors::{Object, OpenFile},
    host::HostIo,
    streams::{EventCounter, pipe},
};

/// Maximum number of open pipe ends. Limited because each pipe uses memory in the monitor.
const MAX_PIPES: usize = 64;

impl<O: HostIo> Kernel<O> {
    pub(super) fn close(&mut self, fd: u64) -> CallResult {
        let closed = self.descriptors.open.remove(&u64::from(fd as u32)).ok_or(Errno::BADF)?;
        self.drop_open(closed.open);
        Ok(0)
    }

    /// Releases an open file. If the file was removed while it was open, it is deleted when its last descriptor is
    /// closed.
    pub(super) fn drop_open(&mut self, open: Rc<OpenFile>) {
        if let Some(OpenFile { object: Object::Node(node, _), .. }) = Rc::into_inner(open) {
            self.disk.release(node);
        }
    }

    pub(super) fn dup(&mut self, fd: u64, from: u64) -> CallResult {
        let open = self.open(fd)?;
        Ok(self.descriptors.add(open, from, false)?)
    }

    pub(super) fn fcntl(&mut self, fd: u64, what: u64, value: u64) -> CallResult {
        let open = self.open(fd)?;
        let descriptor = self.descriptors.open.get(&u64::from(fd as u32)).ok_or(Errno::BADF)?;
        match what as i32 {
            libc::F_DUPFD => self.dup(fd, value),
            libc::F_DUPFD_CLOEXEC => Ok(self.descriptors.add(open, value, true)?),
            libc::F_GETFD => Ok(u64::from(descriptor.closes_on_exec.get())),
            libc::F_SETFD => {
                descriptor.closes_on_exec.set(value & 1 != 0);
                Ok(0)
            }
            libc::F_GETFL => Ok(status_flags(&open)),
            libc::F_SETFL => {
                open.is_nonblocking.set(value as i32 & libc::O_NONBLOCK != 0);
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn ioctl(&mut self, fd: u64, what: u64, value: u64) -> CallResult {
        let open = self.open(fd)?;
        match what {
            libc::FIONBIO => {
                let on = self.read_array::<4>(value)? != [0; 4];
                open.is_nonblocking.set(on);
                Ok(0)
            }
            libc::FIOCLEX | libc::FIONCLEX => Ok(0),
            _ => Err(Errno::NOTTY.into()),
        }
    }

    pub(super) fn pipe(&mut self, at: u64, flags: u64) -> CallResult {
        let (reader, writer) = pipe();
        let flags = flags & !(libc::O_ACCMODE as u64);
        let ends = [
            OpenFile::new(Object::PipeReader(reader), flags | libc::O_RDONLY as u64),
            OpenFile::new(Object::PipeWriter(writer), flags | libc::O_WRONLY as u64),
        ];
        self.add_pair(ends, at, flags)
    }

    /// Creates two connected sockets inside the guest. The guest can create no other sockets.
    pub(super) fn socket_pair(&mut self, family: u64, kind: u64, at: u64) -> CallResult {
        let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64;
        if family != libc::AF_UNIX as u64 || kind & !flags != libc::SOCK_STREAM as u64 {
            return Err(Errno::AFNOSUPPORT.into());
        }
        let ((first_in, second_out), (second_in, first_out)) = (pipe(), pipe());
        let flags = flags | libc::O_RDWR as u64;
        let ends = [
            OpenFile::new(Object::SocketPair(first_in, first_out), flags),
            OpenFile::new(Object::SocketPair(second_in, second_out), flags),
        ];
        self.add_pair(ends, at, flags)
    }

    fn add_pair(&mut self, [first, second]: [OpenFile; 2], at: u64, flags: u64) -> CallResult {
        if self.descriptors.count_pipes() >= MAX_PIPES {
            return Err(Errno::MFILE.into());
        }
        self.check_writable(at, 8)?;
        let closes = flags & libc::O_CLOEXEC as u64 != 0;
        let first = self.descriptors.add(Rc::new(first), 0, closes)?;
        let second = match self.descriptors.add(Rc::new(second), 0, closes) {
            Ok(second) => second,
            Err(error) => {
                self.close(first)?;
                return Err(error.into());
            }
        };
        let both = [(first as u32).to_le_bytes(), (second as u32).to_le_bytes()].concat();
        self.space.write(at, &both)?;
        Ok(0)
    }

    pub(super) fn eventfd(&mut self, count: u64, flags: u64) -> CallResult {
        let is_semaphore = flags & libc::EFD_SEMAPHORE as u64 != 0;
        let counter = EventCounter::new(u64::from(count as u32), is_semaphore);
        let closes = flags & libc::O_CLOEXEC as u64 != 0;
        let open = OpenFile::new(
            Object::EventFd(counter),
            flags & libc::O_NONBLOCK as u64 | libc::O_RDWR as u64,
        );
        Ok(self.descriptors.add(Rc::new(open), 0, closes)?)
    }

    pub(super) fn epoll_create(&mut self) -> CallResult {
        let open = OpenFile::new(Object::Epoll(RefCell::default()), 0);
        Ok(self.descriptors.add(Rc::new(open), 0, true)?)
    }
}

fn status_flags(open: &OpenFile) -> u64 {
    let way = match (open.mode.read, open.mode.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    let append = if open.mode.append { libc::O_APPEND } else { 0 };
    let nonblocking = if open.is_nonblocking.get() { libc::O_NONBLOCK } else { 0 };
    u64::from((way | append | nonblocking).cast_unsigned())
}

//! Passes open files to another process over a Unix socket. This is needed if the other process cannot or may not open
//! the files itself.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of files in one message.
const MAX_FDS: usize = 4;

/// Sends files together with `bytes`, which have to be short enough for a single `sendmsg`.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut buffer = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut buffer);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty())?)
}

/// Receives the files that were sent together with a single byte. Later bytes stay in the socket. Fails if the number
/// of files is not `N`.
pub(super) fn receive<const N: usize>(socket: impl AsFd) -> io::Result<[OwnedFd; N]> {
    let mut buffer = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut buffer);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            files.extend(more);
        }
    }
    files.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
        os::{fd::AsFd, unix::net::UnixStream},
    };

    #[test]
    fn files_arrive_in_order_and_later_bytes_remain_in_the_socket() {
        let (mut host, mut guest) = UnixStream::pair().unwrap();
        let files = ["one", "two"].map(|text| {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().write_all(text.as_bytes()).unwrap();
            File::open(file.path()).unwrap()
        });
        super::send(&host, b"x", &files.each_ref().map(AsFd::as_fd)).unwrap();
        host.write_all(b"after").unwrap();
        let arrived = super::receive::<2>(&guest).unwrap();
        let texts = arrived.map(|it| std::io::read_to_string(File::from(it)).unwrap());
        assert_eq!(texts, ["one", "two"]);
        let mut after = [0; 5];
        guest.read_exact(&mut after).unwrap();
        assert_eq!(&after, b"after");
    }

    #[test]
    fn wrong_number_of_files_is_rejected() {
        let (host, guest) = UnixStream::pair().unwrap();
        super::send(&host, b"x", &[host.as_fd()]).unwrap();
        assert!(super::receive::<2>(&guest).is_err());
        assert!(super::send(&host, b"x", &[host.as_fd(); 9]).is_err());
    }
}

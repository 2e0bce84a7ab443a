//! The system calls that have no safe wrapper.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
};

/// Keeps all descriptors from this one on from programs that are started later.
///
/// A program may have been started with descriptors that it knows nothing of; a guest must not get them.
pub(crate) fn keep_descriptors_from(first: RawFd) -> io::Result<()> {
    // SAFETY: the call takes three numbers and no pointer. With this flag it closes nothing: it only sets the
    // close-on-exec flag of descriptors, so no descriptor that somebody owns goes away under them.
    let done = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_close_range,
            first,
            nix::libc::c_uint::MAX,
            nix::libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the kernel make its random numbers from all that its pool holds, now.
///
/// What is written to the pool counts with the next such turn only, which may be a minute away. It takes
/// `CAP_SYS_ADMIN`.
pub(crate) fn use_new_randomness(source: &File) -> io::Result<()> {
    /// `_IO('R', 7)`, which the libc crate does not name.
    const RNDRESEEDCRNG: nix::libc::Ioctl = 0x5207;
    // SAFETY: the call takes no pointer and changes nothing of this process; the descriptor is open, for it is borrowed.
    let done = unsafe { nix::libc::ioctl(source.as_raw_fd(), RNDRESEEDCRNG) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsRawFd, process::Command};

    use rustix::io::FdFlags;

    #[test]
    fn a_descriptor_that_was_open_to_all_is_not_inherited() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&file, FdFlags::empty()).unwrap();
        let seen = || {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            Command::new("test").args(["-e", &path]).status().unwrap().success()
        };
        assert!(seen());
        super::keep_descriptors_from(file.as_raw_fd()).unwrap();
        assert!(!seen());
        assert_eq!(rustix::io::fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
    }
}

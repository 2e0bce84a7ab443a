//! The system calls that have no safe wrapper.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

/// Keeps all descriptors from this one on from programs that are started later.
///
/// A program may have been started with descriptors that it knows nothing of; a guest must not get them.
pub(crate) fn set_cloexec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: the call takes three numbers and no pointer. With this flag it closes nothing: it only sets the
    // close-on-exec flag of descriptors, so no descriptor that somebody owns goes away under them.
    let result = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_close_range,
            first,
            nix::libc::c_uint::MAX,
            nix::libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the kernel make its random numbers from all that its pool holds, now.
///
/// What is written to the pool counts with the next such turn only, which may be a minute away. It takes
/// `CAP_SYS_ADMIN`.
pub(crate) fn reseed_kernel_rng(source: &File) -> io::Result<()> {
    /// `_IO('R', 7)`, which the libc crate does not name.
    const RNDRESEEDCRNG: nix::libc::Ioctl = 0x5207;
    // SAFETY: the call takes no pointer and changes nothing of this process; the descriptor is open, for it is borrowed.
    let result = unsafe { nix::libc::ioctl(source.as_raw_fd(), RNDRESEEDCRNG) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a tree of mounts read-only, with all that is mounted in it, and takes from its files the power to be devices or
/// to change whose rights a program has. What it was already it stays.
///
/// Kernels before 5.12 do not have the call.
pub(crate) fn restrict_mount_tree(tree: &OwnedFd) -> io::Result<()> {
    use nix::libc;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: both pointers lead to what lives until the call has returned, a text that ends with a zero and a struct of
    // the size that is given; the kernel reads them and writes nothing. The descriptor is open, for it is borrowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes memory that could be shared, of a file or of none, writes to all of it, and keeps it until this process ends.
#[cfg(any(test, feature = "testkit"))]
pub(crate) fn allocate_shared_memory(file: Option<&File>, len: usize) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
    let (access, any_address) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    // SAFETY: a new mapping at a place that the kernel chooses; it replaces nothing.
    let start = unsafe {
        match file {
            Some(file) => mmap(any_address, len, access, MapFlags::SHARED, file, 0)?,
            None => mmap_anonymous(any_address, len, access, MapFlags::SHARED)?,
        }
    };
    // SAFETY: the mapping has this many bytes, may be written to, and nobody else knows of it.
    unsafe { start.cast::<u8>().write_bytes(1, len) };
    Ok(())
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
        super::set_cloexec_from(file.as_raw_fd()).unwrap();
        assert!(!seen());
        assert_eq!(rustix::io::fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
    }
}

//! System calls that have no safe wrapper.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

/// Sets the close-on-exec flag on all file descriptors whose number is `first` or higher.
///
/// This process may have inherited descriptors that it does not know about, and a guest must not get them.
pub(crate) fn set_cloexec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: the call takes three numbers and no pointer. Because of `CLOSE_RANGE_CLOEXEC`, it only sets the
    // close-on-exec flag, so no descriptor is closed while its owner still uses it.
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

/// Makes the kernel reseed its random number generator from its entropy pool immediately.
///
/// Without this call, data written to the pool takes effect only at the next periodic reseed, which may be a minute
/// away. Requires `CAP_SYS_ADMIN`.
pub(crate) fn reseed_kernel_rng(source: &File) -> io::Result<()> {
    /// `_IO('R', 7)`, which the libc crate does not define.
    const RNDRESEEDCRNG: nix::libc::Ioctl = 0x5207;
    // SAFETY: the call takes no pointer and changes nothing in this process. The descriptor is open because it is
    // borrowed.
    let result = unsafe { nix::libc::ioctl(source.as_raw_fd(), RNDRESEEDCRNG) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a tree of mounts read-only, including all mounts below it, and disables device files and set-user-ID programs
/// in it. Restrictions that the mounts already have stay in force.
///
/// Fails on kernels before 5.12, which do not have this call.
pub(crate) fn restrict_mount_tree(tree: &OwnedFd) -> io::Result<()> {
    use nix::libc;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the two pointers refer to a NUL-terminated string and to a struct of the size that is passed. Both values
    // live until the call returns. The kernel reads them and writes nothing. The descriptor is open because it is
    // borrowed.
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

/// Maps `len` bytes of anonymous shared memory, writes to all of it, and keeps it until this process ends.
#[cfg(test)]
pub(crate) fn allocate_shared_memory(len: usize) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the call creates a new mapping at an address that the kernel chooses, so it replaces no existing mapping.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::SHARED)? };
    // SAFETY: the mapping is writable and `len` bytes long, and nothing else refers to it.
    unsafe { start.cast::<u8>().write_bytes(1, len) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsRawFd, process::Command};

    use rustix::io::FdFlags;

    #[test]
    fn inheritable_descriptor_is_no_longer_inherited() {
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

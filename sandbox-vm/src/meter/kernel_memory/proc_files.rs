//! Counts the buffers of open files of `/proc`.
//!
//! The kernel writes a line of such a file into a buffer, and keeps the buffer until the file is closed. Two kinds of
//! output can be long: a line of `maps`, which contains the path of the mapped file, through all nested directories of
//! the workspace; and the list of the locks on a file in `fdinfo`.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use crate::{
    meter::{proc_text::read_status, sum_lines},
    spec::WORKSPACE,
};

/// Memory of an open file whose lines have the usual length.
const BUFFER_BYTES: u64 = 8 << 10;

/// Memory in the buffer for each directory of a path. A name has up to 255 bytes, the kernel may escape each of them as
/// four bytes, and the size of a buffer is a power of two.
const DIRECTORY_BYTES: u64 = 2 * 4 * 256;

/// Memory in the buffer for each lock in a list. The size of a buffer is a power of two.
const LOCK_LINE_BYTES: u64 = 2 * 80;

/// Returns the maximum size in bytes of the buffers of all files of `/proc` that the processes have open.
pub(super) fn buffers(pids: &[i32], n_locks: u64) -> u64 {
    let Ok(proc) = fs::metadata("/proc").map(|it| it.dev()) else { return 0 };
    let open = pids.iter().map(|it| open_proc_files(*it, proc)).fold(0, u64::saturating_add);
    open.saturating_mul(buffer_bytes(workspace_files(), n_locks))
}

/// Returns the maximum size of a buffer in a guest whose workspace has `n_files` files and directories.
fn buffer_bytes(n_files: u64, n_locks: u64) -> u64 {
    let path = n_files.saturating_mul(DIRECTORY_BYTES);
    BUFFER_BYTES.saturating_add(path).saturating_add(n_locks.saturating_mul(LOCK_LINE_BYTES))
}

/// Returns the number of files and directories in the workspace.
fn workspace_files() -> u64 {
    rustix::fs::statvfs(WORKSPACE).map_or(0, |it| it.f_files.saturating_sub(it.f_ffree))
}

/// Returns the number of files that a process has open on the device `proc`. If the process hides its open files, all
/// of them count.
fn open_proc_files(pid: i32, proc: u64) -> u64 {
    let dir = format!("/proc/{pid}/fd");
    let open = match fs::read_dir(&dir) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return open_files(pid),
        // The process has ended.
        Err(_) => return 0,
    };
    let is_proc_file = |it: &fs::DirEntry| fs::metadata(it.path()).is_ok_and(|it| it.dev() == proc);
    open.flatten().filter(is_proc_file).count() as u64
}

/// Returns the number of open files of a process, or the size of its descriptor table if the kernel does not report the
/// number.
fn open_files(pid: i32) -> u64 {
    // Kernels before 6.2 report the size zero.
    let count = fs::metadata(format!("/proc/{pid}/fd")).map_or(0, |it| it.len());
    if count > 0 {
        return count;
    }
    let status = read_status(Path::new(&format!("/proc/{pid}"))).unwrap_or_default();
    sum_lines(&status, &["FDSize:"], "").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::fs::MetadataExt};

    use super::{buffer_bytes, open_files, open_proc_files};

    #[test]
    fn only_open_files_of_proc_count() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let proc = std::fs::metadata("/proc").unwrap().dev();
        let files: Vec<_> = (0..20).map(|_| File::open("/proc/self/maps").unwrap()).collect();
        let open = open_proc_files(own, proc);
        assert!(open >= files.len() as u64, "{open}");
        assert!(open_files(own) >= open);
        assert_eq!(open_proc_files(own, u64::MAX), 0);
        assert_eq!(open_proc_files(i32::MAX, proc), 0, "no such process");
    }

    #[test]
    fn buffer_estimate_covers_the_longest_path_and_all_locks() {
        // 4,000 nested directories whose names consist of line breaks.
        assert!(buffer_bytes(4000, 0) >= (4000_u64 * 4 * 256).next_power_of_two());
        assert!(buffer_bytes(0, 10_000) >= 10_000 * 80);
        assert!(buffer_bytes(20, 0) < 64 << 10, "an ordinary workspace");
    }
}

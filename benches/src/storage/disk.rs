//! The directory that contains the databases, and its file system.

use std::{env, fs, io, path::Path};

use tempfile::TempDir;

/// Creates a directory inside the target directory, on the disk that builds use. The directory is deleted on drop.
pub fn scratch_dir() -> io::Result<TempDir> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    tempfile::Builder::new().prefix("bench-storage-").tempdir_in(target)
}

/// Describes the file system that contains a directory. The report states it, because an fsync costs nothing on an
/// in-memory file system.
pub fn describe(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    match file_system(&mounts, dir) {
        Some(kind @ ("tmpfs" | "ramfs")) => {
            format!(
                "is in memory ({kind}), where an fsync costs nothing: its times are not meaningful"
            )
        }
        Some(kind) => format!("is on {kind}"),
        None => "is on an unknown file system".to_owned(),
    }
}

/// Returns the number of bytes that a process has written, if the system reports it. `process` is a process id, or
/// `self` for this process.
pub(crate) fn written_bytes(process: &str) -> Option<u64> {
    let counts = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    counts.lines().find_map(|it| it.strip_prefix("wchar: "))?.parse().ok()
}

/// Returns the type of the innermost mount that contains the path.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    let around = mounts.filter(|(at, _)| path.starts_with(at));
    around.max_by_key(|(at, _)| at.components().count()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_mount_is_used() {
        let mounts = "/dev/vda / ext4 rw 0 0\nnone /tmp tmpfs rw 0 0\nnone /tmp/disk xfs rw 0 0\n";
        for (path, expect) in [("/home/a", "ext4"), ("/tmp/a", "tmpfs"), ("/tmp/disk/a", "xfs")] {
            assert_eq!(file_system(mounts, Path::new(path)), Some(expect), "{path}");
        }
        assert_eq!(file_system("", Path::new("/home")), None);
    }
}

//! The folder in which the databases lie, and the disk it is on.

use std::{env, fs, io, path::Path};

use tempfile::TempDir;

/// An empty folder inside the target folder, so that it is on the disk that builds are on; deleted in the end.
pub fn scratch_dir() -> io::Result<TempDir> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    tempfile::Builder::new().prefix("bench-storage-").tempdir_in(target)
}

/// Says what kind of disk a folder is on: a file in memory never waits for one.
pub fn describe(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    match file_system(&mounts, dir) {
        Some(kind @ ("tmpfs" | "ramfs")) => {
            format!("lies in memory ({kind}), where an fsync costs nothing: do not trust its times")
        }
        Some(kind) => format!("lies on {kind}"),
        None => "lies on a disk of an unknown kind".to_owned(),
    }
}

/// How many bytes this process has written so far; `None` where the system does not say.
pub fn written() -> Option<usize> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|it| it.strip_prefix("wchar: "))?.parse().ok()
}

/// The kind of the innermost mount that holds the path.
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
    fn the_innermost_mount_counts() {
        let mounts = "/dev/vda / ext4 rw 0 0\nnone /tmp tmpfs rw 0 0\nnone /tmp/disk xfs rw 0 0\n";
        for (path, expect) in [("/home/a", "ext4"), ("/tmp/a", "tmpfs"), ("/tmp/disk/a", "xfs")] {
            assert_eq!(file_system(mounts, Path::new(path)), Some(expect), "{path}");
        }
        assert_eq!(file_system("", Path::new("/home")), None);
    }
}

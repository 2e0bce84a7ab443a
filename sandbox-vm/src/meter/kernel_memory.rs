//! Estimates the kernel memory that programs hold and that no kernel counts.
//!
//! The kernel counts most of this memory for control groups, except file locks. Without a control group it counts none,
//! so this module counts the objects that programs can create in large numbers, and assumes the largest possible size of
//! each object. The seccomp filter and the resource limits of such a guest bound all other objects.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{ProcessSet, sum_kilobytes};

/// List of the Unix sockets in the network namespace of this process.
const SOCKETS_LIST: &str = "/proc/self/net/unix";

/// Maximum number of bytes that the kernel queues for one Unix socket by default: `net.core.wmem_default`, and as much
/// again for the last message. The filter for guests without a control group refuses to change the size.
const SOCKET_BYTES: u64 = 416 << 10;

/// Number of Unix sockets that the agent itself has open, at most.
const AGENT_SOCKETS: u64 = 8;

/// Memory that a file lock counts for. The kernel needs about 256 bytes, but it lists many locks so slowly that counting
/// must stop early. No ordinary program holds thousands of locks.
const LOCK_BYTES: u64 = 16 << 10;

/// Approximate memory of a memory mapping.
const MAPPING_BYTES: u64 = 320;

/// Default maximum number of memory mappings of a process (`vm.max_map_count`). A process whose mappings cannot be read
/// counts as if it had this many.
const MAX_MAPPINGS: u64 = 65_530;

/// Number of samples of which one counts the memory mappings, because counting them is slow.
const MAPPINGS_INTERVAL: u64 = 4;

/// Estimates the kernel memory of a guest's programs.
#[derive(Debug)]
pub(crate) struct KernelMeter {
    /// The kernel's list of file locks. If it is not available, locks are not counted.
    locks: Option<File>,
    /// Whether locks are the only objects that are counted here, because a control group counts the others.
    locks_only: bool,
    samples: AtomicU64,
    /// Number of memory mappings of all processes when they were last counted.
    mappings: AtomicU64,
}

impl KernelMeter {
    /// Creates a meter for a guest with a control group. It counts file locks in the list `locks`, which is
    /// `/proc/locks` of the guest's own process namespace.
    pub(crate) fn with_cgroup(locks: Option<File>) -> Self {
        Self { locks, locks_only: true, samples: AtomicU64::new(0), mappings: AtomicU64::new(0) }
    }

    /// Creates a meter for a guest without a control group. It counts file locks in the list `locks`, which is
    /// `/proc/locks` of the guest's own process namespace, and the other objects in `/proc`.
    pub(crate) fn without_cgroup(locks: Option<File>) -> Self {
        Self { locks_only: false, ..Self::with_cgroup(locks) }
    }

    /// Returns an upper estimate in bytes of the kernel memory that the processes hold now: their page tables, memory
    /// mappings, sockets and file locks. Stops counting a kind of object that alone exceeds the limit.
    pub(crate) fn sample(&self, set: ProcessSet, limit: Option<u64>) -> u64 {
        let limit = limit.unwrap_or(u64::MAX);
        let locks = self.locks.as_ref().map_or(0, |it| count_locks(it, limit / LOCK_BYTES));
        if self.locks_only {
            return locks * LOCK_BYTES;
        }
        let pids: Vec<i32> = set.stats().into_keys().collect();
        let tables: u64 = pids.iter().filter_map(|it| page_tables(*it)).sum();
        let sockets =
            File::open(SOCKETS_LIST).map_or(0, |it| count_lines(it, limit / SOCKET_BYTES));
        // The first line is a heading.
        let sockets = sockets.saturating_sub(1 + AGENT_SOCKETS);
        if self.samples.fetch_add(1, Ordering::Relaxed).is_multiple_of(MAPPINGS_INTERVAL) {
            self.mappings.store(count_mappings(&pids, limit / MAPPING_BYTES), Ordering::Relaxed);
        }
        let mappings = self.mappings.load(Ordering::Relaxed);
        tables + locks * LOCK_BYTES + sockets * SOCKET_BYTES + mappings * MAPPING_BYTES
    }
}

/// Returns the size in bytes of a process's page tables.
fn page_tables(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    sum_kilobytes(&status, &["VmPTE:"])
}

/// Returns the number of memory mappings of all processes together, or any number above `limit` if there are more.
fn count_mappings(pids: &[i32], limit: u64) -> u64 {
    let mut sum = 0;
    for pid in pids {
        sum += mappings(File::open(format!("/proc/{pid}/maps")), limit);
        if sum > limit {
            break;
        }
    }
    sum
}

/// Returns the number of memory mappings in the list `maps`, or any number above `limit` if there are more.
fn mappings(maps: io::Result<impl Read>, limit: u64) -> u64 {
    match maps {
        Ok(maps) => count_lines(maps, limit),
        // A process can hide its mappings from the agent with `prctl(PR_SET_DUMPABLE, 0)`.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => MAX_MAPPINGS,
        // The process has ended.
        Err(_) => 0,
    }
}

fn count_locks(mut list: &File, limit: u64) -> u64 {
    if list.rewind().is_err() {
        return 0;
    }
    count_lines(list, limit)
}

/// Returns the number of lines of a file, or any number above `limit` if it has more. Reads the file in pieces, because
/// a hostile program can make it very long.
fn count_lines(file: impl Read, limit: u64) -> u64 {
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut lines = 0;
    while let Ok(piece @ [_, ..]) = reader.fill_buf() {
        lines += piece.iter().filter(|it| **it == b'\n').count() as u64;
        let length = piece.len();
        reader.consume(length);
        if lines > limit {
            break;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io, os::unix::net::UnixStream};

    use rustix::process::getpid;

    use super::{
        AGENT_SOCKETS, KernelMeter, LOCK_BYTES, MAX_MAPPINGS, SOCKET_BYTES, count_lines, mappings,
    };
    use crate::meter::ProcessSet;

    #[test]
    fn lines_are_counted_up_to_the_limit() {
        assert_eq!(count_lines(&b"a\nb\nc"[..], 9), 2);
        assert_eq!(count_lines(&b""[..], 9), 0);
        assert!((10..1 << 20).contains(&count_lines(std::io::repeat(b'\n'), 9)));
    }

    #[test]
    fn hidden_mappings_count_as_the_maximum() {
        let hidden = Err::<File, _>(io::ErrorKind::PermissionDenied.into());
        assert_eq!(mappings(hidden, 9), MAX_MAPPINGS);
        assert_eq!(mappings(Err::<File, _>(io::ErrorKind::NotFound.into()), 9), 0);
        assert_eq!(mappings(Ok(&b"a\nb\n"[..]), 9), 2);
    }

    #[test]
    fn locks_and_sockets_count_as_memory() {
        let locks = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&locks, "1: POSIX\n".repeat(1000)).unwrap();
        let open = || Some(std::fs::File::open(&locks).unwrap());
        let tree = ProcessSet::Tree(getpid());
        assert_eq!(KernelMeter::with_cgroup(open()).sample(tree, None), 1000 * LOCK_BYTES);
        let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
        let counted = KernelMeter::without_cgroup(None).sample(tree, None);
        assert!(counted >= (2 * pairs.len() as u64 - AGENT_SOCKETS) * SOCKET_BYTES, "{counted}");
    }
}

//! Estimates the kernel memory that programs hold and that the kernel does not count itself.
//!
//! With a control group, the kernel counts all of this memory except file locks. Without one, it counts none, so this
//! module counts the objects that programs can create in large numbers, and assumes the largest possible size of each
//! object. The seccomp filter and the resource limits of such a guest bound all other objects.

mod proc_files;

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::net::sockopt;

use super::{ProcessSet, memory_dir::memory_dir, proc_text::read_status, sum_kilobytes};
use crate::spec::WORKSPACE;

/// List of the Unix sockets in the network namespace of this process.
const SOCKETS_LIST: &str = "/proc/self/net/unix";

/// Default size of the send buffer of a Unix socket (`net.core.wmem_default`), if it cannot be read.
const SEND_BUFFER: u64 = 208 << 10;

/// Maximum number of Unix sockets that the agent itself has open.
const AGENT_SOCKETS: u64 = 8;

/// Number of bytes that each file lock counts as. The kernel needs only about 256 bytes for a lock, but lists locks so
/// slowly that counting must stop after a few thousand. No ordinary program holds that many.
const LOCK_BYTES: u64 = 16 << 10;

/// Maximum memory of a memory mapping, with the objects that describe its pages and its name.
const MAPPING_BYTES: u64 = 640;

/// Memory of the link from a mapping to the mapping of one ancestor of its process. After a fork, a mapping is linked
/// to those of all ancestors.
const ANCESTOR_BYTES: u64 = 64;

/// Number of mappings of a process for which no links to ancestors are counted. Ordinary programs have fewer mappings.
const ORDINARY_MAPPINGS: u64 = 512;

/// Number of samples per count of the mappings and the open files of `/proc`. They are not counted in every sample,
/// because counting them is slow.
const COUNTING_INTERVAL: u64 = 4;

/// Estimates the kernel memory of a guest's programs.
#[derive(Debug)]
pub(crate) struct KernelMeter {
    /// The kernel's list of file locks. If it is not available, locks are not counted.
    locks: Option<File>,
    /// Whether locks are the only objects that are counted here, because a control group counts the others.
    locks_only: bool,
    /// Maximum number of bytes that the kernel queues for one Unix socket: the size of its send buffer, and as much
    /// again for the last message. The filter for guests without a control group refuses to change the size.
    socket_bytes: u64,
    samples: AtomicU64,
    /// Memory of the objects that are not counted in every sample, as of their last count.
    counted_rarely: AtomicU64,
}

impl KernelMeter {
    /// Creates a meter for a guest with a control group. It counts file locks in the list `locks`, which is
    /// `/proc/locks` of the guest's own process namespace.
    pub(crate) fn with_cgroup(locks: Option<File>) -> Self {
        Self {
            locks,
            locks_only: true,
            socket_bytes: 2 * default_send_buffer().unwrap_or(SEND_BUFFER),
            samples: AtomicU64::new(0),
            counted_rarely: AtomicU64::new(0),
        }
    }

    /// Creates a meter for a guest without a control group. It counts file locks in the list `locks`, which is
    /// `/proc/locks` of the guest's own process namespace, and the other objects in `/proc`.
    pub(crate) fn without_cgroup(locks: Option<File>) -> Self {
        Self { locks_only: false, ..Self::with_cgroup(locks) }
    }

    /// Returns an upper estimate in bytes of the kernel memory that the processes hold now: their page tables, memory
    /// mappings, sockets, file locks and open files of `/proc`, and the files in the workspace. Stops counting a kind
    /// of object that alone exceeds the limit.
    pub(crate) fn sample(&self, set: ProcessSet, limit: Option<u64>) -> u64 {
        let limit = limit.unwrap_or(u64::MAX);
        let n_locks = self.locks.as_ref().map_or(0, |it| count_locks(it, limit / LOCK_BYTES));
        let locks = n_locks * LOCK_BYTES;
        if self.locks_only {
            return locks;
        }
        let pids: Vec<i32> = set.stats().into_keys().collect();
        let tables: u64 = pids.iter().filter_map(|it| page_tables(*it)).sum();
        let sockets =
            File::open(SOCKETS_LIST).map_or(0, |it| count_lines(it, limit / self.socket_bytes));
        // The first line is a heading.
        let sockets = sockets.saturating_sub(1 + AGENT_SOCKETS).saturating_mul(self.socket_bytes);
        if self.samples.fetch_add(1, Ordering::Relaxed).is_multiple_of(COUNTING_INTERVAL) {
            let open_files = proc_files::buffers(&pids, n_locks);
            let counted = open_files.saturating_add(mappings_memory(&pids, limit));
            self.counted_rarely.store(counted, Ordering::Relaxed);
        }
        let counted_rarely = self.counted_rarely.load(Ordering::Relaxed);
        let all = [tables, locks, sockets, counted_rarely, workspace_bytes()];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// Returns the size of the send buffer of a new Unix socket.
fn default_send_buffer() -> Option<u64> {
    let (socket, _other) = UnixStream::pair().ok()?;
    let bytes = sockopt::socket_send_buffer_size(&socket).ok()? as u64;
    (bytes > 0).then_some(bytes)
}

/// Returns the size in bytes of the files in the workspace, which is an in-memory file system.
fn workspace_bytes() -> u64 {
    rustix::fs::statvfs(WORKSPACE)
        .map_or(0, |it| it.f_blocks.saturating_sub(it.f_bfree).saturating_mul(it.f_frsize))
}

/// Returns the size in bytes of a process's page tables.
fn page_tables(pid: i32) -> Option<u64> {
    sum_kilobytes(&read_status(&memory_dir(pid)).ok()?, &["VmPTE:"])
}

/// Returns the kernel memory of the memory mappings of all processes together, or any value above `limit` if it is
/// more.
///
/// A process that was forked may share pages with all processes from which it descends, and the kernel links each
/// mapping to all of them. In the worst case, each process is a descendant of all earlier ones.
fn mappings_memory(pids: &[i32], limit: u64) -> u64 {
    let mut sum = 0_u64;
    for pid in pids {
        let count = count_mappings(*pid, limit / MAPPING_BYTES);
        sum = sum.saturating_add(mappings_bytes(count, pids.len() as u64));
        if sum > limit {
            break;
        }
    }
    sum
}

/// Returns the kernel memory of a process's `count` mappings. `processes` is the number of all processes, any of which
/// may be ancestors of this one.
fn mappings_bytes(count: u64, processes: u64) -> u64 {
    let links = count.saturating_sub(ORDINARY_MAPPINGS).saturating_mul(processes);
    count.saturating_mul(MAPPING_BYTES).saturating_add(links.saturating_mul(ANCESTOR_BYTES))
}

/// Returns the number of memory mappings of a process, or any number above `limit` if there are more.
fn count_mappings(pid: i32, limit: u64) -> u64 {
    let dir = memory_dir(pid);
    // Each mapping has at least one page.
    let pages =
        || fs::read_to_string(dir.join("statm")).ok()?.split(' ').next()?.parse::<u64>().ok();
    mappings(File::open(dir.join("maps")), limit, || pages().unwrap_or(0))
}

/// Returns the number of memory mappings in the list `maps`, or any number above `limit` if there are more.
fn mappings(maps: io::Result<impl Read>, limit: u64, maximum: impl FnOnce() -> u64) -> u64 {
    match maps {
        Ok(maps) => count_lines(maps, limit),
        // A process can hide its mappings from the agent with `prctl(PR_SET_DUMPABLE, 0)`.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => maximum(),
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
        AGENT_SOCKETS, KernelMeter, LOCK_BYTES, MAPPING_BYTES, ORDINARY_MAPPINGS, count_lines,
        default_send_buffer, mappings, mappings_bytes,
    };
    use crate::meter::ProcessSet;

    #[test]
    fn lines_are_counted_up_to_the_limit() {
        assert_eq!(count_lines(&b"a\nb\nc"[..], 9), 2);
        assert_eq!(count_lines(&b""[..], 9), 0);
        assert!((10..1 << 20).contains(&count_lines(std::io::repeat(b'\n'), 9)));
    }

    #[test]
    fn hidden_mappings_count_as_the_maximum_number() {
        let hidden = Err::<File, _>(io::ErrorKind::PermissionDenied.into());
        assert_eq!(mappings(hidden, 9, || 500), 500);
        assert_eq!(mappings(Err::<File, _>(io::ErrorKind::NotFound.into()), 9, || 500), 0);
        assert_eq!(mappings(Ok(&b"a\nb\n"[..]), 9, || 500), 2);
    }

    #[test]
    fn mappings_above_the_ordinary_number_also_count_links_to_ancestors() {
        let ordinary = mappings_bytes(ORDINARY_MAPPINGS, 64);
        assert_eq!(ordinary, ORDINARY_MAPPINGS * MAPPING_BYTES);
        assert_eq!(mappings_bytes(ORDINARY_MAPPINGS + 1, 64), ordinary + MAPPING_BYTES + 64 * 64);
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
        let buffers = 2 * default_send_buffer().unwrap();
        assert!(counted >= (2 * pairs.len() as u64 - AGENT_SOCKETS) * buffers, "{counted}");
    }
}

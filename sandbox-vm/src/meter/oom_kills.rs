//! Counts the processes that the kernel has killed because no memory was left.

use std::{
    fs::File,
    io::{self, Read, Seek},
};

/// Name of the counter in `/proc/vmstat`.
const COUNTER: &str = "oom_kill ";

/// The kernel's count of the processes that it has killed because no memory was left. The kernel increments it before
/// it kills a process, so the count is up to date when the process has ended.
///
/// The count includes all processes of the kernel, so it is meaningful only in a VM, whose kernel runs a single guest.
#[derive(Debug)]
pub(crate) struct OomKillCounter {
    vmstat: File,
}

impl OomKillCounter {
    /// Creates a counter that reads `vmstat`, an open `/proc/vmstat`. Fails if the kernel does not count out-of-memory
    /// kills.
    pub(crate) fn new(vmstat: File) -> io::Result<Self> {
        let counter = Self { vmstat };
        counter.read()?;
        Ok(counter)
    }

    /// Returns the number of processes killed so far, or zero if it cannot be read.
    pub(crate) fn count(&self) -> u64 {
        self.read().unwrap_or(0)
    }

    fn read(&self) -> io::Result<u64> {
        let mut text = String::new();
        (&self.vmstat).rewind()?;
        (&self.vmstat).read_to_string(&mut text)?;
        let count = text.lines().find_map(|it| it.strip_prefix(COUNTER)?.parse().ok());
        count.ok_or_else(|| io::Error::other("the kernel does not count out-of-memory kills"))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::Write,
    };

    use super::{COUNTER, OomKillCounter};

    #[test]
    fn the_current_count_is_read_each_time() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(file.path()).unwrap();
        assert!(OomKillCounter::new(open()).is_err());
        file.write_all(b"nr_free_pages 7\noom_kill_other 9\noom_kill 3\n").unwrap();
        let counter = OomKillCounter::new(File::open(file.path()).unwrap()).unwrap();
        assert_eq!(counter.count(), 3);
        fs::write(file.path(), "oom_kill 4\n").unwrap();
        assert_eq!(counter.count(), 4);
    }

    #[test]
    fn counter_is_read_from_this_kernel() {
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        if !vmstat.lines().any(|it| it.starts_with(COUNTER)) {
            let reason = "this kernel does not count out-of-memory kills";
            let _ =
                writeln!(std::io::stderr(), "SKIPPED: counter_is_read_from_this_kernel; {reason}");
            return;
        }
        OomKillCounter::new(File::open("/proc/vmstat").unwrap()).unwrap();
    }
}

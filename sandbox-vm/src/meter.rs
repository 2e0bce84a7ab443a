//! Measures the resources that processes use, by reading `/proc`.
//!
//! In a guest, the agent uses these measurements to detect that a program exceeds a limit. If a kernel also enforces
//! limits, the agent's check is a second line of defence. Programs that run concurrently in one guest are counted
//! together. On the host, this module measures guests that have no control group.

pub(crate) mod cpu_ledger;
pub(crate) mod kernel_memory;
mod memory_dir;
pub(crate) mod oom_kills;
pub(crate) mod proc_text;

use std::{
    collections::{HashMap, HashSet},
    fs,
    ops::RangeInclusive,
    os::fd::OwnedFd,
    time::Duration,
};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::{
    cpu_ledger::{CpuLedger, ProcessTime},
    memory_dir::memory_dir,
};

/// Resources that a set of processes uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) threads: u32,
    pub(crate) memory: u64,
    /// CPU time of the running processes and of the children they have waited for.
    pub(crate) cpu: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ProcessSet {
    /// All processes except the agent, which is process 1.
    AllExceptAgent,
    /// The processes of a group and all their descendants, including those that have left the group.
    Group(Pid),
    Tree(Pid),
}

impl ProcessSet {
    /// Reads the statistics of the processes in the set that are running now, by process id.
    fn stats(self) -> HashMap<i32, Stat> {
        let mut processes = processes();
        match self {
            Self::AllExceptAgent => processes.retain(|pid, _| *pid != 1),
            Self::Group(group) => {
                let is_member = |it: &Stat| it.group == group.as_raw_nonzero().get();
                let members = processes.iter().filter(|it| is_member(it.1)).map(|it| *it.0);
                let tree = descendants(&processes, members.collect());
                processes.retain(|pid, _| tree.contains(pid));
            }
            Self::Tree(root) => {
                let root = HashSet::from([root.as_raw_nonzero().get()]);
                let tree = descendants(&processes, root);
                processes.retain(|pid, _| tree.contains(pid));
            }
        }
        processes
    }

    /// Opens the processes in the set that are running now.
    pub(crate) fn open(self) -> Vec<OwnedFd> {
        let open =
            |pid: i32| Some((pid, pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?));
        let opened: Vec<_> = self.stats().into_keys().filter_map(open).collect();
        // Check the membership again, because an id may have been reused before its process was opened.
        let members = self.stats();
        opened.into_iter().filter(|it| members.contains_key(&it.0)).map(|it| it.1).collect()
    }
}

/// Measures the resources that the running processes in the set use, and records their CPU time in the ledger. All
/// values are zero if there is no `/proc`.
pub(crate) fn sample(set: ProcessSet, ledger: &mut CpuLedger) -> Sample {
    let stats = set.stats();
    ledger.record(stats.iter().map(|(pid, stat)| {
        let Stat { parent, own_cpu: own, children_cpu: children, .. } = *stat;
        ((*pid, stat.started), ProcessTime { parent, own, children })
    }));
    let mut sum = Sample::default();
    for (pid, stat) in stats {
        sum.threads = sum.threads.saturating_add(stat.threads);
        let memory = non_file_memory(pid).unwrap_or(0);
        sum.memory = sum.memory.saturating_add(memory);
        sum.cpu += stat.own_cpu + stat.children_cpu;
    }
    sum
}

/// Measures memory in bytes, more exactly and more slowly than [`sample`]. Called before a program is ended because of
/// its memory use. Memory that several processes share counts once. Pages of files do not count, although gVisor's
/// kernel reports them as private to each process.
pub(crate) fn exact_memory(set: ProcessSet) -> u64 {
    set.stats()
        .into_keys()
        .filter_map(|pid| proportional_memory(pid).or_else(|| non_file_memory(pid)))
        .sum()
}

/// Returns the number of bytes of a process's memory that are not backed by a file. This includes private memory and
/// memory that the process may share with other processes.
fn non_file_memory(pid: i32) -> Option<u64> {
    let dir = memory_dir(pid);
    let status = proc_text::read_status(&dir).ok()?;
    // gVisor's kernel does not provide these lines, so fall back to `statm`.
    sum_kilobytes(&status, &["RssAnon:", "RssShmem:", "VmSwap:", "HugetlbPages:"])
        .or_else(|| private_memory(&fs::read_to_string(dir.join("statm")).ok()?))
}

/// Like [`non_file_memory`], but counts only the process's proportional share of shared memory. Returns `None` if that
/// share cannot be read, for example because the process hides its memory.
fn proportional_memory(pid: i32) -> Option<u64> {
    let dir = memory_dir(pid);
    let read = |file: &str| proc_text::read(dir.join(file)).ok();
    let names = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:", "Private_Hugetlb:", "Shared_Hugetlb:"];
    let exact = |it: String| sum_kilobytes(&it, &names);
    let exact = read("smaps_rollup").and_then(exact);
    exact.or_else(|| sum_kilobytes(&read("smaps")?, &["Anonymous:"]))
}

/// Sums the values in kilobytes of all lines that start with one of these names, and returns the sum in bytes, or
/// `None` if there is no such line.
fn sum_kilobytes(text: &str, names: &[&str]) -> Option<u64> {
    Some(sum_lines(text, names, "kB")?.saturating_mul(1024))
}

/// Sums the values of all lines that start with one of these names and end with `unit`, or returns `None` if there is
/// no such line.
fn sum_lines(text: &str, names: &[&str], unit: &str) -> Option<u64> {
    let value = |line: &str| {
        let value = names.iter().find_map(|it| line.strip_prefix(it))?;
        value.strip_suffix(unit)?.trim().parse::<u64>().ok()
    };
    text.lines().filter_map(value).reduce(u64::saturating_add)
}

fn processes() -> HashMap<i32, Stat> {
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse::<i32>().ok()) else { continue };
        let Ok(line) = proc_text::read(format!("/proc/{pid}/stat")) else { continue };
        processes.extend(Stat::parse(&line).filter(|it| !it.is_kernel_thread).map(|it| (pid, it)));
    }
    processes
}

/// Returns the ids in `found` and those of all descendants of these processes.
fn descendants(processes: &HashMap<i32, Stat>, mut found: HashSet<i32>) -> HashSet<i32> {
    let mut size = 0;
    while size < found.len() {
        size = found.len();
        let children = processes.iter().filter(|(_, it)| found.contains(&it.parent));
        let children: Vec<_> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
    }
    found
}

/// Resources used by the children that this process has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReapedUsage {
    /// Total CPU time of all these children.
    pub(crate) cpu: Duration,
    /// Memory in bytes of the child that used most.
    pub(crate) memory: u64,
}

/// Returns the resources used by the children that this process has waited for.
pub(crate) fn reaped_usage() -> ReapedUsage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return ReapedUsage::default() };
    let cpu = [usage.user_time(), usage.system_time()].map(|it| {
        let micros = u64::try_from(it.tv_usec()).unwrap_or(0);
        Duration::from_secs(u64::try_from(it.tv_sec()).unwrap_or(0)) + Duration::from_micros(micros)
    });
    let memory = u64::try_from(usage.max_rss()).unwrap_or(0).saturating_mul(1024);
    ReapedUsage { cpu: cpu.iter().sum(), memory }
}

struct Stat {
    /// Whether the process is a kernel thread. Kernel threads are visible to the first process in a VM.
    is_kernel_thread: bool,
    parent: i32,
    group: i32,
    threads: u32,
    /// CPU time of the process itself, without its children.
    own_cpu: Duration,
    /// CPU time of the children that the process has waited for.
    children_cpu: Duration,
    /// Time at which the process was started, in ticks since the machine was booted.
    started: u64,
}

/// Bit that marks kernel threads in the flags field of `/proc/PID/stat`.
const PF_KTHREAD: i64 = 0x0020_0000;

impl Stat {
    /// Parses the content of `/proc/PID/stat`. The program name in it may contain spaces and parentheses, so the fields
    /// are counted from the last closing parenthesis.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
        // The kernel reports hundredths of a second to user space, regardless of its own tick rate.
        let time = |fields: RangeInclusive<usize>| {
            let ticks: i64 = fields.map(|it| number(it).unwrap_or(0).max(0)).sum();
            Duration::from_millis(10 * u64::try_from(ticks).unwrap_or(0))
        };
        Some(Self {
            is_kernel_thread: number(6)? & PF_KTHREAD != 0,
            parent: i32::try_from(number(1)?).ok()?,
            group: i32::try_from(number(2)?).ok()?,
            threads: u32::try_from(number(17)?).unwrap_or(1),
            own_cpu: time(11..=12),
            children_cpu: time(13..=14),
            started: number(19).and_then(|it| u64::try_from(it).ok()).unwrap_or(0),
        })
    }
}

/// Returns the private memory of a process in bytes, from a line of `/proc/PID/statm`. Shared memory is left out,
/// because it would be counted once for each process that shares it.
fn private_memory(line: &str) -> Option<u64> {
    let mut pages = line.split_ascii_whitespace().skip(1).map(|it| it.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(shared).saturating_mul(rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::process::CommandExt};

    use super::{Stat, private_memory, sum_kilobytes};

    #[test]
    fn brackets_in_the_name_do_not_shift_the_fields() {
        let line =
            "7 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 3 0 9 8192000 500 1 2";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.group, stat.threads), (1, 42, 3));
        assert!(!stat.is_kernel_thread);
        assert_eq!(
            private_memory("900 500 100 1 0 2 0\n"),
            Some(400 * rustix::param::page_size() as u64)
        );
        assert_eq!((stat.own_cpu.as_millis(), stat.children_cpu.as_millis()), (1500, 500));
        assert_eq!(stat.started, 9);
        assert!(Stat::parse("7 (cut").is_none() && Stat::parse("7 (x) S 1").is_none());
    }

    #[test]
    fn kernel_threads_are_recognised() {
        let line = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 3 0 0 1 0";
        assert!(Stat::parse(line).unwrap().is_kernel_thread);
    }

    #[test]
    fn pages_of_files_do_not_count_as_memory() {
        let maps = "1-2 r-xp 0 fe:00 7 /agent\nRss: 8 kB\nAnonymous:  0 kB\n\
                    2-3 rw-p 0 00:00 0\nRss: 12 kB\nAnonymous:  8 kB\nAnonHugePages: 4 kB\nAnonymous: 4 kB\n";
        assert_eq!(sum_kilobytes(maps, &["Anonymous:"]), Some(12 << 10));
        assert_eq!(sum_kilobytes(maps, &["RssAnon:"]), None);
        let status = "VmRSS:\t 9 kB\nRssAnon:\t 4 kB\nRssFile:\t 3 kB\nRssShmem:\t 2 kB\n";
        assert_eq!(sum_kilobytes(status, &["RssAnon:", "RssShmem:"]), Some(6 << 10));
    }

    #[test]
    fn shared_memory_counts_once() {
        const LEN: u64 = 24 << 20;
        let (before, _) = own_memory_samples();
        crate::sys::allocate_shared_memory(LEN as usize).unwrap();
        let (after, exact) = own_memory_samples();
        // The bounds have a margin, because other tests allocate and free memory between the readings.
        assert!(after >= before + LEN / 2, "{before} became {after}");
        // No other process shares the memory, so all of it counts.
        assert!(exact >= LEN && exact <= after + LEN / 2, "{exact} of {after}");
    }

    /// Returns the memory of this process according to the fast measurement and according to the exact one.
    fn own_memory_samples() -> (u64, u64) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        (super::non_file_memory(own).unwrap(), super::proportional_memory(own).unwrap())
    }

    #[test]
    fn children_count_with_their_parent() {
        let mut parent = std::process::Command::new("sh");
        parent.args(["-c", "sleep 1000 & sleep 1000 & echo; wait"]).process_group(0);
        let mut parent = parent.stdout(std::process::Stdio::piped()).spawn().unwrap();
        // The script prints a line when both children are running.
        let mut line = [0];
        parent.stdout.take().unwrap().read_exact(&mut line).unwrap();
        let id = rustix::process::Pid::from_child(&parent);
        let sample =
            || super::sample(super::ProcessSet::Tree(id), &mut super::CpuLedger::default());
        let all = sample().threads;
        rustix::process::kill_process_group(id, rustix::process::Signal::KILL).unwrap();
        parent.wait().unwrap();
        assert_eq!(all, 3);
        assert_eq!(sample().threads, 0);
    }
}

//! What processes use, as `/proc` tells it.
//!
//! In a guest this finds out which limit a program is about to break; a kernel's own limits stand behind it where a back
//! end has them. Programs that run at once in one guest are counted together. On the host it tells what a guest uses
//! where no control group does.

use std::{
    collections::{HashMap, HashSet},
    fs,
    time::Duration,
};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::Pid;

/// What runs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) threads: u32,
    pub(crate) memory: u64,
    /// Of what runs, and of all children it waited for.
    pub(crate) cpu: Duration,
}

/// Which processes count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    /// All but the agent, which is process 1.
    All,
    /// Those of this process group.
    Group(Pid),
    /// This one, and all that it and its children started.
    Below(Pid),
}

/// Looks at what runs; nothing where there is no `/proc`.
pub(crate) fn sample(whose: Whose) -> Sample {
    let processes = processes();
    let below = match whose {
        Whose::Below(pid) => below(&processes, pid.as_raw_nonzero().get()),
        Whose::All | Whose::Group(_) => HashSet::new(),
    };
    let mut sum = Sample::default();
    for (pid, stat) in processes {
        let counts = match whose {
            Whose::All => pid != 1,
            Whose::Group(group) => stat.group == group.as_raw_nonzero().get(),
            Whose::Below(_) => below.contains(&pid),
        };
        if counts {
            sum.threads = sum.threads.saturating_add(stat.threads);
            let memory = fs::read_to_string(format!("/proc/{pid}/statm"));
            let memory = memory.ok().and_then(|it| own_memory(&it)).unwrap_or(0);
            sum.memory = sum.memory.saturating_add(memory);
            sum.cpu += stat.cpu;
        }
    }
    sum
}

fn processes() -> HashMap<i32, Stat> {
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse::<i32>().ok()) else { continue };
        let Ok(line) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        processes.extend(Stat::parse(&line).map(|it| (pid, it)));
    }
    processes
}

fn below(processes: &HashMap<i32, Stat>, root: i32) -> HashSet<i32> {
    let mut found = HashSet::from([root]);
    let mut size = 0;
    while size < found.len() {
        size = found.len();
        let children = processes.iter().filter(|(_, it)| found.contains(&it.parent));
        let children: Vec<_> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
    }
    found
}

/// What the children used that the agent has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reaped {
    /// Of all of them together.
    pub(crate) cpu: Duration,
    /// The most that any one of them had.
    pub(crate) memory: u64,
}

/// Looks at what the children used that the agent has waited for.
pub(crate) fn reaped() -> Reaped {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Reaped::default() };
    let cpu = [usage.user_time(), usage.system_time()].map(|it| {
        let micros = u64::try_from(it.tv_usec()).unwrap_or(0);
        Duration::from_secs(u64::try_from(it.tv_sec()).unwrap_or(0)) + Duration::from_micros(micros)
    });
    let memory = u64::try_from(usage.max_rss()).unwrap_or(0).saturating_mul(1024);
    Reaped { cpu: cpu.iter().sum(), memory }
}

struct Stat {
    parent: i32,
    group: i32,
    threads: u32,
    cpu: Duration,
}

impl Stat {
    /// Reads a line of `/proc/PID/stat`. The name in it may hold anything, brackets and spaces too.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
        let ticks: i64 = (11..=14).map(|it| number(it).unwrap_or(0).max(0)).sum();
        // The kernel counts in hundredths of a second for every program, whatever its own clock does.
        let cpu = Duration::from_millis(10 * u64::try_from(ticks).unwrap_or(0));
        Some(Self {
            parent: i32::try_from(number(1)?).ok()?,
            group: i32::try_from(number(2)?).ok()?,
            threads: u32::try_from(number(17)?).unwrap_or(1),
            cpu,
        })
    }
}

/// The memory that is a process's alone, from its line in `/proc/PID/statm`: what it shares would count many times.
fn own_memory(line: &str) -> Option<u64> {
    let mut pages = line.split_ascii_whitespace().skip(1).map(|it| it.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(shared).saturating_mul(rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use super::{Stat, own_memory};

    #[test]
    fn a_name_with_brackets_does_not_move_the_fields() {
        let line =
            "7 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 3 0 9 8192000 500 1 2";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.group, stat.threads), (1, 42, 3));
        assert_eq!(
            own_memory("900 500 100 1 0 2 0\n"),
            Some(400 * rustix::param::page_size() as u64)
        );
        assert_eq!(stat.cpu.as_millis(), 2000);
        assert!(Stat::parse("7 (cut").is_none() && Stat::parse("7 (x) S 1").is_none());
    }

    #[test]
    fn children_count_with_their_parents() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let own = rustix::process::getpid();
        let all = super::sample(super::Whose::Below(own)).threads;
        child.kill().unwrap();
        child.wait().unwrap();
        let alone = super::sample(super::Whose::Below(own)).threads;
        assert!(all > 1 && alone >= 1, "{all} with the child, {alone} without");
    }
}

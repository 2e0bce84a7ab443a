//! Describes the machine and the peers of a measurement in Markdown.

use std::{
    fs, io,
    path::Path,
    thread::{self, available_parallelism},
    time::Duration,
};

use super::peer::Peer;
use crate::{data, storage, table::cell_text};

/// Share of the processors that other programs may use without a note in the results.
const IDLE_SHARE: f64 = 0.1;

/// Describes the processors and the disk that contains `scratch`. Takes about two seconds.
pub fn describe_machine(scratch: &Path) -> io::Result<String> {
    let disk = storage::describe_disk(scratch);
    let fsync = storage::simplest_fsync(scratch)?.as_micros();
    let cores = available_parallelism().map_or(1, usize::from);
    let load = match busy_share(Duration::from_secs(2)) {
        Some(share) if share > IDLE_SHARE => format!(
            " Other programs used {:.0} % of them: the ratios are meaningful, the times are not.",
            share * 100.0
        ),
        _ => String::new(),
    };
    Ok(format!(
        "Measured with `cargo xtask bench` on {cores} cores.{load}\nThe SQLite files are in a directory that {disk}; \
         overwriting and syncing {} bytes takes {fsync} µs there.\n",
        data::MESSAGE_SIZE
    ))
}

/// Waits and returns the share of the processors that was used in the meantime, if the system reports it.
fn busy_share(wait: Duration) -> Option<f64> {
    let stat = || fs::read_to_string("/proc/stat").ok();
    let before = processor_ticks(&stat()?)?;
    thread::sleep(wait);
    let after = processor_ticks(&stat()?)?;
    let [busy, all] = [after.busy - before.busy, after.all - before.all];
    (all > 0).then(|| busy as f64 / all as f64)
}

#[derive(Debug, PartialEq)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// Reads the first line of Linux's `/proc/stat`: the time of all processors, by use.
fn processor_ticks(stat: &str) -> Option<Ticks> {
    let times = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    // The remaining values are times of guests, which the first two values already include.
    let times: Vec<u64> = times.take(8).filter_map(|it| it.parse().ok()).collect();
    let [_user, _nice, _system, idle, waiting, ..] = times[..] else { return None };
    let all = times.iter().sum();
    Some(Ticks { busy: all - idle - waiting, all })
}

/// Lists the versions of the peers as a table.
pub fn describe_peers(peers: &[Peer], scratch: &Path) -> String {
    let mut text = String::from("\n| peer | version |\n|---|---|\n");
    for peer in peers {
        let version = match peer.start(scratch).and_then(|mut it| it.ready()) {
            Ok(version) => version,
            Err(error) => format!("not installed ({})", cell_text(&error.to_string())),
        };
        text += &format!("| {} | {version} |\n", peer.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_wait_for_io_count_as_idle() {
        let stat = "cpu  100 20 30 800 50 0 1 2 7 8\ncpu0 1 2 3\n";
        assert_eq!(processor_ticks(stat), Some(Ticks { busy: 153, all: 1_003 }));
        assert_eq!(processor_ticks("intr 1"), None);
    }
}

//! Finds the directory of `/proc` that shows the memory of a process.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the directory of `/proc` whose files show the memory of a process.
///
/// If the main thread of a process has ended while other threads still run, the directory of the process shows no
/// memory. This function then returns the directory of another thread, so that a program cannot hide its memory by
/// ending its main thread.
pub(super) fn memory_dir(pid: i32) -> PathBuf {
    memory_dir_of(PathBuf::from(format!("/proc/{pid}")))
}

fn memory_dir_of(process: PathBuf) -> PathBuf {
    if has_memory(&process) {
        return process;
    }
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    threads.map(|it| it.path()).find(|it| has_memory(it)).unwrap_or(process)
}

/// Returns whether a process or thread has an address space. The first field of `statm` is the size of the address
/// space.
fn has_memory(dir: &Path) -> bool {
    fs::read_to_string(dir.join("statm")).is_ok_and(|it| !it.starts_with("0 "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{memory_dir, memory_dir_of};

    #[test]
    fn memory_of_a_process_without_main_thread_is_found() {
        let process = tempfile::tempdir().unwrap();
        let task = |id: &str| process.path().join("task").join(id);
        for id in ["7", "8"] {
            fs::create_dir_all(task(id)).unwrap();
            fs::write(task(id).join("statm"), "0 0 0 0 0 0 0\n").unwrap();
        }
        fs::write(process.path().join("statm"), "0 0 0 0 0 0 0\n").unwrap();
        assert_eq!(memory_dir_of(process.path().into()), process.path(), "the process has ended");
        fs::write(task("8").join("statm"), "900 500 100 1 0 2 0\n").unwrap();
        assert_eq!(memory_dir_of(process.path().into()), task("8"));
    }

    #[test]
    fn memory_of_an_ordinary_process_is_found_in_its_own_directory() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(memory_dir(own), std::path::PathBuf::from(format!("/proc/{own}")));
    }
}

//! Finds the files that QEMU needs, so that QEMU's root directory contains no others.

use std::{fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::qemu::PROGRAM;
use crate::backend::{host::find_in_path, loaded_files::LoadedFiles};

/// Directories where distributions install the modules that QEMU loads on demand.
const MODULE_DIRS: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/qemu", "/usr/lib64/qemu", "/usr/lib/qemu"];

/// Prefix of the names of QEMU's accelerator modules. No other modules are needed.
const ACCELERATOR_PREFIX: &str = "accel-";

/// Directories where distributions install firmware. All of them are needed, because they contain links to each other.
const DATA_DIRS: [&str; 3] = ["/usr/share/qemu", "/usr/share/seabios", "/usr/share/qboot"];

/// Cache file from which the dynamic loader learns about libraries outside the standard directories.
const LIBRARY_CACHE: &str = "/etc/ld.so.cache";

/// The files and directories of an installed QEMU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backend) struct QemuFiles {
    pub(super) program: PathBuf,
    /// All files and directories that QEMU needs, including the program.
    pub(super) paths: Vec<PathBuf>,
}

impl QemuFiles {
    /// Finds the installed QEMU and everything it needs.
    pub(super) fn find() -> io::Result<Self> {
        let path = find_in_path(PROGRAM).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("{PROGRAM} is not installed"))
        })?;
        let program = path.canonicalize()?;
        let mut paths = vec![program.clone()];
        paths.extend(LoadedFiles::of(&program)?.into_paths());
        paths.extend(accelerators());
        // QEMU looks for its data relative to its own directory.
        let relative = program.parent().map(|it| it.join("../share/qemu"));
        let data = relative.and_then(|it| it.canonicalize().ok()).into_iter();
        let standard = DATA_DIRS.iter().chain(&[LIBRARY_CACHE]).map(PathBuf::from);
        paths.extend(data.chain(standard.filter(|it| it.exists())));
        paths.sort();
        paths.dedup();
        Ok(Self { program, paths })
    }
}

fn accelerators() -> Vec<PathBuf> {
    let files = MODULE_DIRS.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().flatten();
    let modules =
        files.filter(|it| it.file_name().to_string_lossy().starts_with(ACCELERATOR_PREFIX));
    modules.map(|it| it.path()).collect()
}

//! What QEMU is made of: the files that its root has to hold, and no others.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

use super::qemu::PROGRAM;
use crate::backend;

/// Where distributions put the parts of QEMU that it loads when it needs them.
const MODULE_DIRS: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/qemu", "/usr/lib64/qemu", "/usr/lib/qemu"];

/// Of these it needs the one that runs the instructions.
const ACCELERATOR_PREFIX: &str = "accel-";

/// Where they put firmware, which links lead from one of these to another.
const DATA_DIRS: [&str; 3] = ["/usr/share/qemu", "/usr/share/seabios", "/usr/share/qboot"];

/// By this the loader knows libraries that do not lie where they mostly do.
const LIBRARY_CACHE: &str = "/etc/ld.so.cache";

/// The files and folders of a QEMU that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QemuFiles {
    pub(super) program: PathBuf,
    /// All of them, the program included.
    pub(super) paths: Vec<PathBuf>,
}

impl QemuFiles {
    /// Finds them.
    pub(super) fn find() -> io::Result<Self> {
        let found = backend::find_in_path(PROGRAM).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("{PROGRAM} is not installed"))
        })?;
        let program = found.canonicalize()?;
        let mut paths = vec![program.clone()];
        paths.extend(libraries(&program)?);
        paths.extend(accelerators());
        // As it looks for it: beside its own folder.
        let beside = program.parent().map(|it| it.join("../share/qemu"));
        let data = beside.and_then(|it| it.canonicalize().ok()).into_iter();
        let usual = DATA_DIRS.iter().chain(&[LIBRARY_CACHE]).map(PathBuf::from);
        paths.extend(data.chain(usual.filter(|it| it.exists())));
        paths.sort();
        paths.dedup();
        Ok(Self { program, paths })
    }
}

/// Asks the loader, which says so in place of starting the program. A program without libraries says its version.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().env("LD_TRACE_LOADED_OBJECTS", "1").current_dir("/");
    let output = command.output()?;
    Ok(parse_loader_output(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths in lines like `libz.so.1 => /lib/libz.so.1 (0x7f00)` and `/lib64/ld-linux-x86-64.so.2 (0x7f00)`.
fn parse_loader_output(lines: &str) -> Vec<PathBuf> {
    let path =
        |line: &str| line.split_whitespace().find(|it| it.starts_with('/')).map(PathBuf::from);
    lines.lines().filter_map(path).collect()
}

fn accelerators() -> Vec<PathBuf> {
    let files = MODULE_DIRS.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().flatten();
    let wanted =
        files.filter(|it| it.file_name().to_string_lossy().starts_with(ACCELERATOR_PREFIX));
    wanted.map(|it| it.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    #[test]
    fn libraries_are_read_from_what_the_loader_says() {
        let lines = "\tlinux-vdso.so.1 (0x01)\n\tlibz.so.1 => /lib/libz.so.1 (0x02)\n\tgone.so => not found\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x03)\nQEMU emulator version 7.2\n";
        let expected = ["/lib/libz.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(super::parse_loader_output(lines), expected);
    }
}

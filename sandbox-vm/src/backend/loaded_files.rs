//! The files that the dynamic loader maps for a program.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

/// The dynamic loader of a program and the shared libraries that it finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LoadedFiles {
    /// The loader, or `None` if the program is statically linked.
    pub(super) loader: Option<PathBuf>,
    /// The libraries, each with the name under which the program asks for it.
    pub(super) libraries: Vec<(String, PathBuf)>,
}

impl LoadedFiles {
    /// Asks the dynamic loader for the files of a program. The environment variable `LD_TRACE_LOADED_OBJECTS` makes it
    /// list them instead of starting the program. A statically linked program ignores the variable, so the argument
    /// `--version` must have no effect on it.
    pub(super) fn of(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("--version").env_clear().env("LD_TRACE_LOADED_OBJECTS", "1").current_dir("/");
        let output = command.output()?;
        Self::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Parses lines like `libz.so.1 => /lib/libz.so.1 (0x7f00)` and `/lib64/ld-linux-x86-64.so.2 (0x7f00)`.
    fn parse(lines: &str) -> io::Result<Self> {
        let mut files = Self::default();
        for line in lines.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [name, "=>", "not", "found"] => {
                    return Err(io::Error::other(format!("the library {name} is not installed")));
                }
                // The program names its loader with a path.
                [name, "=>", path, ..] if name.starts_with('/') => files.loader = Some(path.into()),
                [name, "=>", path, ..] if path.starts_with('/') => {
                    files.libraries.push(((*name).to_owned(), path.into()));
                }
                [path, ..] if path.starts_with('/') => files.loader = Some(path.into()),
                _ => {}
            }
        }
        Ok(files)
    }

    /// Returns the paths of all files.
    pub(super) fn into_paths(self) -> impl Iterator<Item = PathBuf> {
        self.loader.into_iter().chain(self.libraries.into_iter().map(|it| it.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_parsed_from_the_list_of_the_loader() {
        let lines = "\tlinux-vdso.so.1 (0x01)\n\tlibz.so.1 => /lib/libz.so.1.3 (0x02)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x03)\nQEMU emulator version 7.2\n";
        let files = LoadedFiles::parse(lines).unwrap();
        assert_eq!(files.loader, Some("/lib64/ld-linux-x86-64.so.2".into()));
        assert_eq!(files.libraries, [("libz.so.1".to_owned(), "/lib/libz.so.1.3".into())]);
        let lines = "\t/lib64/ld-linux-x86-64.so.2 => /usr/lib/ld-linux-x86-64.so.2 (0x01)\n";
        let files = LoadedFiles::parse(lines).unwrap();
        assert_eq!(files.loader, Some("/usr/lib/ld-linux-x86-64.so.2".into()));
        assert!(files.libraries.is_empty());
        let error = LoadedFiles::parse("\tgone.so => not found\n").unwrap_err();
        assert!(error.to_string().contains("gone.so"), "{error}");
    }
}

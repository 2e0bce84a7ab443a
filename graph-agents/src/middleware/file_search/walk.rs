//! The files below a directory.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Maximum number of directory entries that one search visits.
const MAX_ENTRIES: usize = 200_000;

/// A directory that searches cannot leave.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// Path without symbolic links.
    path: PathBuf,
}

/// A regular file below the root.
#[derive(Debug)]
pub(super) struct VisitedFile {
    pub(super) path: PathBuf,
    /// Path relative to the start of the search, with `/` as separator.
    pub(super) below_start: String,
    /// Path that the model sees. It starts with `/`, which denotes the root.
    pub(super) shown: String,
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        if !path.is_dir() {
            let problem = format!("`{}` is not a directory", path.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, problem));
        }
        Ok(Self { path })
    }

    /// Returns the files below `start`, a path in the form that the model sees, sorted by path. A start outside of the
    /// root, or one that does not exist, has no files.
    pub(super) fn files(&self, start: &str) -> Vec<VisitedFile> {
        let mut files = Vec::new();
        let mut n_entries = 0;
        let mut pending: Vec<_> = self.resolve(start).into_iter().collect();
        let base = pending.first().cloned().unwrap_or_default();
        while let Some(dir) = pending.pop() {
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                n_entries += 1;
                if n_entries > MAX_ENTRIES {
                    break;
                }
                // The type of an entry is that of the link itself, so symbolic links are neither files nor directories.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => pending.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        let path = entry.path();
                        let below_start = slashed(&path, &base);
                        let shown = format!("/{}", slashed(&path, &self.path));
                        files.push(VisitedFile { path, below_start, shown });
                    }
                    _ => {}
                }
            }
        }
        files.sort_by(|a, b| a.shown.cmp(&b.shown));
        files
    }

    /// Returns the directory that `start` refers to, unless it is outside of the root or reached through a symbolic
    /// link.
    fn resolve(&self, start: &str) -> Option<PathBuf> {
        let mut path = self.path.clone();
        for part in Path::new(start).components() {
            match part {
                Component::Normal(name) => path.push(name),
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => return None,
            }
        }
        (path.canonicalize().ok()? == path && path.is_dir()).then_some(path)
    }
}

fn slashed(path: &Path, base: &Path) -> String {
    let parts = path.strip_prefix(base).unwrap_or(path).components();
    let parts: Vec<_> = parts.map(|it| it.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

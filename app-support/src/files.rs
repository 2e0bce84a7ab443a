//! Files that are replaced atomically, so that a crash never leaves a partial file.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// The error returned when a file or directory cannot be accessed.
#[derive(Debug, thiserror::Error)]
#[error("cannot access {}: {source}", path.display())]
pub struct FileError {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// I/O error.
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that adds `path` to an I/O error.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self { path: path.to_owned(), source }
    }
}

/// Creates a directory and its parents.
pub fn create_dir(dir: &Path) -> Result<(), FileError> {
    fs::create_dir_all(dir).map_err(FileError::at(dir))
}

/// Returns whether `dir` is empty or does not exist. Also returns `true` for a path that is not a directory; the
/// caller's attempt to create the directory then reports the error.
pub fn is_empty_dir(dir: &Path) -> bool {
    fs::read_dir(dir).map_or(true, |mut it| it.next().is_none())
}

/// Reads a text file.
pub fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(FileError::at(path))
}

/// Writes a file and syncs it to disk. Use it for files that cannot be regenerated from other files.
pub fn write_synced(path: &Path, text: &str) -> Result<(), FileError> {
    let written = write_temp(path, text).and_then(|(file, temp)| {
        file.sync_all()?;
        fs::rename(temp, path)
    });
    written.map_err(FileError::at(path))
}

/// Writes a file without syncing it to disk. Use it only for files that can be regenerated.
pub fn write_unsynced(path: &Path, text: &str) -> Result<(), FileError> {
    let written = write_temp(path, text).and_then(|(_, temp)| fs::rename(temp, path));
    written.map_err(FileError::at(path))
}

/// Writes the text to a temporary file next to `path`. The caller must rename the temporary file to `path`.
fn write_temp(path: &Path, text: &str) -> io::Result<(File, PathBuf)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temp = path.with_file_name(name);
    let mut file = File::create(&temp)?;
    file.write_all(text.as_bytes())?;
    Ok((file, temp))
}

/// Copies a file, if it exists. The copy is writable even if the original is read-only.
pub fn copy_if_exists(from: &Path, to: &Path) -> Result<(), FileError> {
    let mut file = match File::open(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(FileError::at(from))?,
    };
    let mut copy = File::create(to).map_err(FileError::at(to))?;
    io::copy(&mut file, &mut copy).map(drop).map_err(FileError::at(to))
}

/// Replaces the absolute path of a directory in a message with `name`, for readers who must not see the paths of this
/// host. If `dir` is relative, only its canonical form is replaced.
pub fn redact_dir(message: &str, dir: &Path, name: &str) -> String {
    let paths = [Some(dir.to_owned()), dir.canonicalize().ok()];
    let absolute = paths.into_iter().flatten().filter(|it| it.is_absolute());
    absolute.fold(message.to_owned(), |text, it| text.replace(&*it.to_string_lossy(), name))
}

#[cfg(test)]
mod tests {
    use super::{is_empty_dir, read, redact_dir, write_synced, write_unsynced};

    #[test]
    fn written_files_replace_existing_ones_and_leave_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        assert!(is_empty_dir(dir.path()) && is_empty_dir(&dir.path().join("missing")));
        write_synced(&path, "one").unwrap();
        write_unsynced(&path, "two").unwrap();
        assert_eq!(read(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(!is_empty_dir(dir.path()));
        let error = read(&dir.path().join("missing")).unwrap_err().to_string();
        assert!(error.starts_with("cannot access ") && error.contains("missing: "), "{error}");
    }

    #[test]
    fn redacted_messages_do_not_contain_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(&dir.path().join("missing")).unwrap_err().to_string();
        let redacted = redact_dir(&error, dir.path(), "the run directory");
        assert!(redacted.starts_with("cannot access the run directory/missing: "), "{redacted}");
        // Only the canonical form of a relative path is replaced.
        let here = std::env::current_dir().unwrap();
        let message = format!("src in {}/src", here.display());
        assert_eq!(redact_dir(&message, "src".as_ref(), "the sources"), "src in the sources");
    }
}

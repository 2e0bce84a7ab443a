//! Accesses the files in the workspace.
//!
//! Every path is resolved from the workspace's file descriptor, one component at a time, without following symbolic
//! links. Neither a link nor a directory that is moved concurrently can lead out of the workspace.

use std::{
    ffi::CString,
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    path::{Component, Path},
};

use rustix::{
    fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags},
    io::Errno,
    path::Arg,
};

use crate::{
    protocol::message::{Entry, EntryKind, Fault, FaultCode, FileContents},
    spec::WORKSPACE,
};

/// Maximum number of entries in a directory that can be listed.
const MAX_ENTRIES: usize = 100_000;

/// Reads a file. Refuses files larger than `limit` bytes.
pub(super) fn read(workspace: &Path, path: &str, limit: u64) -> Result<FileContents, Fault> {
    let (dir, name) = open_parent(workspace, path, MissingDirs::Fail)?;
    // `NONBLOCK` is needed because opening a pipe that has no writer would block forever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = open(&dir, name, flags, Mode::empty()).map_err(|it| fault(path, it))?;
    let stat = fs::fstat(&file).map_err(|it| fault(path, it))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Fault::new(FaultCode::Refused, format!("`{path}` is not a regular file")));
    }
    let mut bytes = Vec::new();
    let mut file = File::from(file).take(limit.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(|error| Fault::new(FaultCode::Failed, error))?;
    if bytes.len() as u64 > limit {
        let message = format!("`{path}` has more than {limit} bytes; read it in parts with `exec`");
        return Err(Fault::new(FaultCode::Refused, message));
    }
    Ok(FileContents { bytes })
}

/// Writes a file and creates missing parent directories.
pub(super) fn write(workspace: &Path, path: &str, bytes: &[u8]) -> Result<(), Fault> {
    let (dir, name) = open_parent(workspace, path, MissingDirs::Create)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
    let file = open(&dir, name, flags, Mode::from(0o644)).map_err(|it| fault(path, it))?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(|error| {
        let message = format!("cannot write `{path}`: {error}");
        Fault::new(FaultCode::Failed, message)
    })
}

/// Lists the entries of a directory, sorted by name.
pub(super) fn list(workspace: &Path, path: &str) -> Result<Vec<Entry>, Fault> {
    let dir = match path_components(path)?.as_slice() {
        [] => open_workspace(workspace)?,
        names => open_dirs(open_workspace(workspace)?, names, path, MissingDirs::Fail)?,
    };
    let mut entries = Vec::new();
    for entry in Dir::read_from(&dir).map_err(|it| fault(path, it))? {
        let entry = entry.map_err(|it| fault(path, it))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // Skip entries that were removed since the directory was read.
        let Ok(stat) = fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let (kind, size) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (EntryKind::File, u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::Directory => (EntryKind::Directory, 0),
            _ => (EntryKind::Other, 0),
        };
        entries.push(Entry { name: name.to_string_lossy().into_owned(), kind, size });
        if entries.len() > MAX_ENTRIES {
            let message = format!("`{path}` has more than {MAX_ENTRIES} entries");
            return Err(Fault::new(FaultCode::Refused, message));
        }
    }
    entries.sort();
    Ok(entries)
}

/// Deletes a file, or a directory with its contents.
pub(super) fn remove(workspace: &Path, path: &str) -> Result<(), Fault> {
    let (dir, name) = open_parent(workspace, path, MissingDirs::Fail)?;
    remove_entry(&dir, name).map_err(|it| fault(path, it))
}

/// Maximum number of directories that are open at once while a directory tree is deleted.
const MAX_OPEN_DIRS: usize = 32;

/// Deletes a directory entry. Directories are emptied level by level, without recursion.
fn remove_entry(dir: &OwnedFd, name: &str) -> Result<(), Errno> {
    match fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        result => return result,
    }
    // The open directories, from the top of the tree down to the one that is being emptied, each with its name in its
    // parent.
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let mut ancestors = vec![(open_dir(dir, &*name)?, name)];
    let mut moved = 0_u64;
    while let Some((open, _)) = ancestors.last() {
        match remove_files(open)? {
            Some(inner) if ancestors.len() < MAX_OPEN_DIRS => {
                let deeper = open_dir(open, &*inner)?;
                ancestors.push((deeper, inner));
            }
            // The tree may be deeper than the limit on open files. Move directories that are too deep to the top of the
            // tree, where they are deleted later.
            Some(inner) => {
                match fs::renameat(open, &*inner, &ancestors[0].0, format!("deep-{moved}")) {
                    // If the new name already exists, try the next number.
                    Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => moved += 1,
                    Err(error) => return Err(error),
                }
            }
            None => {
                let Some((_, empty)) = ancestors.pop() else { break };
                let above = ancestors.last().map_or(dir, |(it, _)| it);
                fs::unlinkat(above, &*empty, AtFlags::REMOVEDIR)?;
            }
        }
    }
    Ok(())
}

/// Deletes the files of a directory until it reaches a subdirectory, and returns the name of that subdirectory, if any.
fn remove_files(dir: &OwnedFd) -> Result<Option<CString>, Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match fs::unlinkat(dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => return Ok(Some(name.to_owned())),
            result => result?,
        }
    }
    Ok(None)
}

/// Action to take if a parent directory does not exist.
#[derive(Clone, Copy)]
enum MissingDirs {
    Create,
    Fail,
}

/// Opens the directory that contains the last component of a path. Returns that directory and the last component.
fn open_parent<'a>(
    workspace: &Path,
    path: &'a str,
    missing: MissingDirs,
) -> Result<(OwnedFd, &'a str), Fault> {
    let names = path_components(path)?;
    let Some((last, dirs)) = names.split_last() else {
        return Err(Fault::new(
            FaultCode::InvalidPath,
            "the path is the workspace itself; name a file or directory in it",
        ));
    };
    Ok((open_dirs(open_workspace(workspace)?, dirs, path, missing)?, last))
}

/// Splits a path into its components below the workspace. The path may start with the workspace or be relative to it.
fn path_components(path: &str) -> Result<Vec<&str>, Fault> {
    let bad = || {
        let message =
            format!("`{path}` leads out of the workspace; use a path below it, without `..`");
        Fault::new(FaultCode::InvalidPath, message)
    };
    let below = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path,
    };
    let mut names = Vec::new();
    for component in Path::new(below).components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().ok_or_else(bad)?),
            Component::CurDir => {}
            _ => return Err(bad()),
        }
    }
    Ok(names)
}

fn open_workspace(workspace: &Path) -> Result<OwnedFd, Fault> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    fs::openat(CWD, workspace, flags, Mode::empty()).map_err(|it| fault("the workspace", it))
}

fn open_dirs(
    mut dir: OwnedFd,
    names: &[&str],
    path: &str,
    missing: MissingDirs,
) -> Result<OwnedFd, Fault> {
    for name in names {
        let next = match (open_dir(&dir, *name), missing) {
            (Err(Errno::NOENT), MissingDirs::Create) => {
                match fs::mkdirat(&dir, *name, Mode::from(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => open_dir(&dir, *name),
                    Err(error) => Err(error),
                }
            }
            (opened, _) => opened,
        };
        dir = next.map_err(|it| fault(path, it))?;
    }
    Ok(dir)
}

/// Opens a directory. Succeeds even if the entry is not a directory; the next operation on the file descriptor then
/// fails.
///
/// `O_DIRECTORY` is not used because gVisor's kernel then follows symbolic links despite `O_NOFOLLOW`.
fn open_dir(dir: &OwnedFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    open(dir, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())
}

fn open(dir: &OwnedFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    fs::openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
}

fn fault(path: &str, error: Errno) -> Fault {
    let (code, problem) = match error {
        Errno::NOENT => (FaultCode::NotFound, "does not exist".to_owned()),
        Errno::LOOP | Errno::NOTDIR => (
            FaultCode::InvalidPath,
            "leads through a symbolic link or a file; links are not followed".to_owned(),
        ),
        error => (FaultCode::Failed, format!("cannot be accessed: {error}")),
    };
    Fault::new(code, format!("`{path}` {problem}"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{list, read, remove, write};
    use crate::protocol::message::{EntryKind, FaultCode};

    #[test]
    fn files_are_written_read_listed_and_removed() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        write(root, "logs/deep/i1.json", b"[]").unwrap();
        write(root, "/workspace/logs/i2.json", b"{}").unwrap();
        assert_eq!(read(root, "logs/deep/i1.json", 10).unwrap().bytes, b"[]");
        let names: Vec<_> = list(root, "logs").unwrap();
        let names: Vec<_> = names.iter().map(|it| (it.name.as_str(), it.kind, it.size)).collect();
        assert_eq!(names, [("deep", EntryKind::Directory, 0), ("i2.json", EntryKind::File, 2)]);
        assert_eq!(read(root, "logs/i2.json", 1).unwrap_err().code, FaultCode::Refused);
        remove(root, "logs").unwrap();
        assert_eq!(list(root, "").unwrap(), []);
        assert_eq!(read(root, "logs/i2.json", 10).unwrap_err().code, FaultCode::NotFound);
    }

    #[test]
    fn no_path_leaves_the_workspace() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "key").unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        symlink(outside.path(), root.join("dir-link")).unwrap();
        symlink(outside.path().join("secret"), root.join("link")).unwrap();
        symlink(outside.path().join("new"), root.join("dangling")).unwrap();
        for path in [
            "../secret", "/etc/passwd", "a/../../x", "dir-link/secret", "link", "", "/workspace/..",
        ] {
            let fault = read(root, path, 100).unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidPath, "{path}: {fault:?}");
        }
        for path in ["dir-link/new", "link", "dangling", "../new", "/workspaces/new"] {
            let fault = write(root, path, b"x").unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidPath, "{path}: {fault:?}");
        }
        assert_eq!(list(root, "dir-link").unwrap_err().code, FaultCode::InvalidPath);
        // `remove` deletes the link, not its target.
        remove(root, "dir-link").unwrap();
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"key");
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn pipes_cannot_be_read_as_files() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        let pipe = root.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).unwrap();
        assert_eq!(read(root, "pipe", 10).unwrap_err().code, FaultCode::Refused);
    }

    /// Environment variable that is set when the test below reruns itself with a low limit on open files.
    const WITH_FEW_FILES: &str = "SANDBOX_VM_WITH_FEW_FILES";

    #[test]
    fn non_utf8_names_and_deep_trees_are_removed() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        if std::env::var_os(WITH_FEW_FILES).is_none() {
            let mut test = std::process::Command::new("sh");
            test.args(["-c", "ulimit -n 128 && exec \"$0\" \"$@\""]);
            test.arg(std::env::current_exe().unwrap()).args(["non_utf8_names_and_deep_trees"]);
            let output = test.env(WITH_FEW_FILES, "1").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        let non_utf8 = root.join("tree").join(OsStr::from_bytes(b"\xff\xfe"));
        fs::create_dir_all(&non_utf8).unwrap();
        fs::write(non_utf8.join(OsStr::from_bytes(b"\x80")), "").unwrap();
        // Entries with these names already exist when `remove` tries to move deep directories to the top.
        fs::create_dir_all(root.join("tree/deep-0/full")).unwrap();
        fs::write(root.join("tree/deep-1"), "").unwrap();
        let mut dir = super::open_workspace(root).unwrap();
        for name in std::iter::once("tree").chain(std::iter::repeat_n("d", 200)) {
            let _ = rustix::fs::mkdirat(&dir, name, rustix::fs::Mode::from(0o755));
            dir = super::open_dir(&dir, name).unwrap();
        }
        remove(root, "tree").unwrap();
        assert_eq!(list(root, "").unwrap(), []);
    }
}

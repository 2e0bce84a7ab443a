//! The files of the workspace.
//!
//! Every path is walked from the workspace's own descriptor, one name at a time, and no link is followed: neither a
//! link nor a folder that is moved meanwhile leads out.

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

use crate::protocol::message::{Bytes, Entry, EntryKind, Fault, FaultCode};

/// How many entries of a folder are listed.
const MAX_ENTRIES: usize = 100_000;

/// Reads a file of `limit` bytes at most.
pub(super) fn read(workspace: &Path, path: &str, limit: u64) -> Result<Bytes, Fault> {
    let (folder, name) = find(workspace, path, Missing::Refuse)?;
    // A pipe without a writer would make this wait for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = open(&folder, name, flags, Mode::empty()).map_err(|it| fault(path, it))?;
    let stat = fs::fstat(&file).map_err(|it| fault(path, it))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Fault::new(FaultCode::Refused, format!("`{path}` is no file")));
    }
    let mut bytes = Vec::new();
    let mut file = File::from(file).take(limit.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(|error| Fault::new(FaultCode::Failed, error))?;
    if bytes.len() as u64 > limit {
        let message = format!("`{path}` has more than {limit} bytes; read it in parts with `exec`");
        return Err(Fault::new(FaultCode::Refused, message));
    }
    Ok(Bytes { bytes })
}

/// Writes a file, and makes the folders around it.
pub(super) fn write(workspace: &Path, path: &str, bytes: &[u8]) -> Result<(), Fault> {
    let (folder, name) = find(workspace, path, Missing::Make)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
    let file = open(&folder, name, flags, Mode::from(0o644)).map_err(|it| fault(path, it))?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(|error| {
        let message = format!("`{path}` cannot be written: {error}");
        Fault::new(FaultCode::Failed, message)
    })
}

/// Lists a folder, sorted by name.
pub(super) fn list(workspace: &Path, path: &str) -> Result<Vec<Entry>, Fault> {
    let folder = match names(path)?.as_slice() {
        [] => root(workspace)?,
        names => walk(root(workspace)?, names, path, Missing::Refuse)?,
    };
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder).map_err(|it| fault(path, it))? {
        let entry = entry.map_err(|it| fault(path, it))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // What was removed since is not listed.
        let Ok(stat) = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let (kind, size) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (EntryKind::File, u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::Directory => (EntryKind::Folder, 0),
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

/// Removes a file, or a folder with all that is in it.
pub(super) fn remove(workspace: &Path, path: &str) -> Result<(), Fault> {
    let (folder, name) = find(workspace, path, Missing::Refuse)?;
    clear(&folder, name).map_err(|it| fault(path, it))
}

/// How many folders are open at once while a tree is removed.
const MAX_OPEN: usize = 32;

/// Removes an entry; folders are emptied one level after the other, without recursion.
fn clear(folder: &OwnedFd, name: &str) -> Result<(), Errno> {
    match fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        done => return done,
    }
    // The way down to the folder that is being emptied, each with its name in the one above.
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let mut way = vec![(open_folder(folder, &*name)?, name)];
    let mut moved = 0_u64;
    while let Some((open, _)) = way.last() {
        match empty(open)? {
            Some(inner) if way.len() < MAX_OPEN => {
                let deeper = open_folder(open, &*inner)?;
                way.push((deeper, inner));
            }
            // A tree may be deeper than there may be open files: what is so deep goes up, and is met again there.
            Some(inner) => match fs::renameat(open, &*inner, &way[0].0, format!("deep-{moved}")) {
                // Where something is in the way the next name is tried.
                Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => moved += 1,
                Err(error) => return Err(error),
            },
            None => {
                let Some((_, empty)) = way.pop() else { break };
                let above = way.last().map_or(folder, |(it, _)| it);
                fs::unlinkat(above, &*empty, AtFlags::REMOVEDIR)?;
            }
        }
    }
    Ok(())
}

/// Removes what is in a folder, up to the first folder in it, whose name it gives.
fn empty(folder: &OwnedFd) -> Result<Option<CString>, Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match fs::unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => return Ok(Some(name.to_owned())),
            done => done?,
        }
    }
    Ok(None)
}

/// What becomes of folders on the way that do not exist.
#[derive(Clone, Copy)]
enum Missing {
    Make,
    Refuse,
}

/// The folder that holds the last name of a path, and that name.
fn find<'a>(
    workspace: &Path,
    path: &'a str,
    missing: Missing,
) -> Result<(OwnedFd, &'a str), Fault> {
    let names = names(path)?;
    let Some((last, folders)) = names.split_last() else {
        return Err(Fault::new(FaultCode::Path, "the path names the workspace itself"));
    };
    Ok((walk(root(workspace)?, folders, path, missing)?, last))
}

/// The names of a path below the workspace; it may be given with the workspace in front or without.
fn names(path: &str) -> Result<Vec<&str>, Fault> {
    let bad = || {
        let message =
            format!("`{path}` leads out of the workspace; give a path below it, without `..`");
        Fault::new(FaultCode::Path, message)
    };
    let below = match path.strip_prefix(super::WORKSPACE) {
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

fn root(workspace: &Path) -> Result<OwnedFd, Fault> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    fs::openat(CWD, workspace, flags, Mode::empty()).map_err(|it| fault("the workspace", it))
}

fn walk(
    mut folder: OwnedFd,
    names: &[&str],
    path: &str,
    missing: Missing,
) -> Result<OwnedFd, Fault> {
    for name in names {
        let next = match (open_folder(&folder, *name), missing) {
            (Err(Errno::NOENT), Missing::Make) => {
                match fs::mkdirat(&folder, *name, Mode::from(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => open_folder(&folder, *name),
                    Err(error) => Err(error),
                }
            }
            (opened, _) => opened,
        };
        folder = next.map_err(|it| fault(path, it))?;
    }
    Ok(folder)
}

/// Opens what should be a folder; what is none fails when something in it is asked for.
///
/// It is not asked for a folder outright: gVisor's kernel then follows a link, though it is told to follow none.
fn open_folder(folder: &OwnedFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    open(folder, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())
}

fn open(folder: &OwnedFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    fs::openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
}

fn fault(path: &str, error: Errno) -> Fault {
    let (code, problem) = match error {
        Errno::NOENT => (FaultCode::NotFound, "does not exist".to_owned()),
        Errno::LOOP | Errno::NOTDIR => {
            (FaultCode::Path, "leads through a link or a file; links are not followed".to_owned())
        }
        error => (FaultCode::Failed, format!("cannot be used: {error}")),
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
        assert_eq!(names, [("deep", EntryKind::Folder, 0), ("i2.json", EntryKind::File, 2)]);
        assert_eq!(read(root, "logs/i2.json", 1).unwrap_err().code, FaultCode::Refused);
        remove(root, "logs").unwrap();
        assert_eq!(list(root, "").unwrap(), []);
        assert_eq!(read(root, "logs/i2.json", 10).unwrap_err().code, FaultCode::NotFound);
    }

    #[test]
    fn no_path_leads_out() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "key").unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        symlink(outside.path(), root.join("way")).unwrap();
        symlink(outside.path().join("secret"), root.join("link")).unwrap();
        symlink(outside.path().join("new"), root.join("dangling")).unwrap();
        for path in
            ["../secret", "/etc/passwd", "a/../../x", "way/secret", "link", "", "/workspace/.."]
        {
            let fault = read(root, path, 100).unwrap_err();
            assert_eq!(fault.code, FaultCode::Path, "{path}: {fault:?}");
        }
        for path in ["way/new", "link", "dangling", "../new", "/workspaces/new"] {
            let fault = write(root, path, b"x").unwrap_err();
            assert_eq!(fault.code, FaultCode::Path, "{path}: {fault:?}");
        }
        assert_eq!(list(root, "way").unwrap_err().code, FaultCode::Path);
        // A link is removed, and not what it leads to.
        remove(root, "way").unwrap();
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"key");
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn pipes_and_devices_are_no_files() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        let pipe = root.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).unwrap();
        assert_eq!(read(root, "pipe", 10).unwrap_err().code, FaultCode::Refused);
    }

    /// Set where the test below runs once more, with few open files.
    const WITH_FEW: &str = "SANDBOX_VM_WITH_FEW_FILES";

    #[test]
    fn whatever_a_guest_calls_its_files_and_however_deep_they_are_they_are_removed() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        if std::env::var_os(WITH_FEW).is_none() {
            let mut test = std::process::Command::new("sh");
            test.args(["-c", "ulimit -n 128 && exec \"$0\" \"$@\""]);
            test.arg(std::env::current_exe().unwrap()).args(["whatever_a_guest_calls_its_files"]);
            let output = test.env(WITH_FEW, "1").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        let odd = root.join("tree").join(OsStr::from_bytes(b"\xff\xfe"));
        fs::create_dir_all(&odd).unwrap();
        fs::write(odd.join(OsStr::from_bytes(b"\x80")), "").unwrap();
        // In the way of what is moved up.
        fs::create_dir_all(root.join("tree/deep-0/full")).unwrap();
        fs::write(root.join("tree/deep-1"), "").unwrap();
        let mut folder = super::root(root).unwrap();
        for name in std::iter::once("tree").chain(std::iter::repeat_n("d", 200)) {
            let _ = rustix::fs::mkdirat(&folder, name, rustix::fs::Mode::from(0o755));
            folder = super::open_folder(&folder, name).unwrap();
        }
        remove(root, "tree").unwrap();
        assert_eq!(list(root, "").unwrap(), []);
    }
}

//! The only module that accesses files. Everything is opened relative to a directory descriptor, and links are never
//! followed.
//!
//! There is no gap between checking a path and using it. The kernel resolves each path in one call (`openat2`) that
//! rejects symbolic links, magic links, mount points and `..`. An opened file must be a regular file with one hard
//! link. Files are written under a temporary name and renamed into place. If a directory is moved away during a write,
//! the gate detects the move and undoes the write.

mod in_place;
mod lock;
pub(crate) mod permissions;

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{
        AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Stat, flock,
        fstat, fsync, mkdirat, openat2, renameat_with, statat, unlinkat,
    },
    io::Errno,
};

pub(crate) use self::lock::Lock;
use crate::{error::Error, escape::escape_for_message, hook::Hook};

/// Mode of the gate's own files.
const PRIVATE_FILE: u32 = 0o600;

/// An open directory in the workspace.
#[derive(Debug)]
pub(crate) struct Dir {
    root: Arc<OwnedFd>,
    fd: OwnedFd,
    /// Path relative to the workspace root, used in messages and to check that the directory is still in place.
    path: String,
    hook: Hook,
}

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    /// Permission bits without setuid and setgid.
    pub(crate) mode: u32,
}

/// Event that a write must survive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Durability {
    /// The write survives a power failure, because it is synced.
    PowerLoss,
    ProcessCrash,
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Dir {
    /// Opens the root directory of a workspace. The path of the root may contain links, because the operator chooses
    /// it.
    pub(crate) fn open_root(path: &Path, hook: Hook) -> io::Result<Self> {
        let fd = rustix::fs::open(path, FOLDER | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root: Arc::new(fd.try_clone()?), fd, path: String::new(), hook })
    }

    /// Opens a subdirectory. An empty path reopens this directory.
    pub(crate) fn subdir(&self, path: &str) -> Result<Self, Error> {
        let beneath = if path.is_empty() { "." } else { path };
        let fd = self
            .open(beneath, FOLDER, Mode::empty())
            .map_err(|it| self.errno_error("open", path, it))?;
        // Store the full path, not the escaped form used in messages, because `is_in_place` opens this path again.
        let path = self.full_path(path);
        Ok(Self { root: self.root.clone(), fd, path, hook: self.hook.clone() })
    }

    pub(crate) fn create_dir(&self, path: &str) -> Result<Self, Error> {
        self.create_dir_with_mode(path, 0o777)
    }

    fn create_dir_with_mode(&self, path: &str, mode: u32) -> Result<Self, Error> {
        let mut dir = self.subdir("")?;
        for name in path.split('/').filter(|it| !it.is_empty()) {
            dir.notify("create a directory", name);
            match mkdirat(&dir.fd, name, Mode::from_raw_mode(mode)) {
                Ok(()) => {
                    dir.sync()?;
                    dir = dir.subdir(name)?;
                }
                Err(Errno::EXIST) => dir = dir.subdir(name)?,
                Err(error) => return Err(dir.errno_error("create", name, error)),
            }
        }
        Ok(dir)
    }

    /// Reads a regular file that has one hard link and at most `limit` bytes. Returns `None` if nothing exists at the
    /// path.
    pub(crate) fn read(&self, path: &str, limit: u64) -> Result<Option<Content>, Error> {
        // `NONBLOCK` is needed because opening a pipe that has no writer would block forever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let fd = match self.open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.errno_error("open", path, error)),
        };
        let stat = self.require_regular_file(path, &fd)?;
        let too_large = || Error::TooLarge { path: self.join(path), limit };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > limit {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let read = File::from(fd).take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|source| self.io_error("read", path, source))?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        Ok(Some(Content { bytes, mode: stat.st_mode & 0o777 }))
    }

    /// Creates a file with exactly this name. Fails if the name exists.
    pub(crate) fn write_new(
        &self,
        name: &str,
        content: &Content,
        keep: Durability,
    ) -> Result<(), Error> {
        self.notify("create a file", name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(content.mode);
        let fd = self.open(name, flags, mode).map_err(|it| self.errno_error("create", name, it))?;
        let write = || -> io::Result<()> {
            // Set the mode again, because the umask may have cleared some of its bits when the file was created.
            rustix::fs::fchmod(&fd, mode)?;
            if !self.is_in_place() {
                return Err(io::Error::other("the directory was moved away"));
            }
            self.notify("write a file", name);
            self.write_in_two_parts(&fd, name, &content.bytes)?;
            if keep == Durability::PowerLoss {
                self.notify("sync a file", name);
                fsync(&fd)?;
            }
            Ok(())
        };
        write().map_err(|source| {
            let _ = unlinkat(&self.fd, name, AtFlags::empty());
            self.io_error("write", name, source)
        })
    }

    /// Atomically writes one of the gate's files, replacing anything that exists under this name.
    pub(crate) fn replace(
        &self,
        name: &str,
        bytes: Vec<u8>,
        keep: Durability,
    ) -> Result<(), Error> {
        let fresh = temp_name();
        self.write_new(&fresh, &Content { bytes, mode: PRIVATE_FILE }, keep)?;
        self.notify("move a file into place", name);
        if let Err(error) = renameat_with(&self.fd, &fresh, &self.fd, name, RenameFlags::empty()) {
            self.remove(&fresh)?;
            return Err(self.errno_error("replace", name, error));
        }
        if !self.is_in_place() {
            self.remove(name)?;
            return Err(self.moved_error());
        }
        if keep == Durability::PowerLoss { self.sync() } else { Ok(()) }
    }

    /// Atomically exchanges the files behind two names.
    pub(crate) fn exchange(&self, one: &str, other: &str) -> Result<(), Error> {
        self.notify("exchange two files", other);
        renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE)
            .map_err(|it| self.errno_error("exchange", other, it))
    }

    /// Renames a file to a name that must not exist.
    pub(crate) fn rename_new(&self, from: &str, to: &str) -> Result<(), Error> {
        self.notify("move a file", to);
        renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE)
            .map_err(|it| self.errno_error("create", to, it))
    }

    /// Moves a file to another directory under the same name, and replaces an existing file there.
    pub(crate) fn move_over(&self, name: &str, dir: &Self) -> Result<(), Error> {
        self.notify("move a file to another directory", name);
        renameat_with(&self.fd, name, &dir.fd, name, RenameFlags::empty())
            .map_err(|it| dir.errno_error("replace", name, it))
    }

    /// Removes a file if it exists. A link is removed, not followed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        self.notify("remove a file", name);
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.errno_error("remove", name, error)),
        }
    }

    /// Waits for an exclusive lock on a file. Creates the file if it is missing.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = self
            .open(name, flags, Mode::from_raw_mode(PRIVATE_FILE))
            .map_err(|it| self.errno_error("open", name, it))?;
        loop {
            match flock(&fd, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Lock::new(fd)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.errno_error("lock", name, error)),
            }
        }
    }

    /// Returns the names of all entries in the directory, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let read = || -> rustix::io::Result<Vec<String>> {
            let mut names = vec![];
            for entry in rustix::fs::Dir::read_from(&self.fd)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        read().map_err(|it| self.errno_error("list", "", it))
    }

    pub(crate) fn remove_empty(&self, name: &str) {
        self.notify("remove a directory", name);
        let _ = unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the modification time of a file, in seconds since the Unix epoch.
    pub(crate) fn written_at(&self, name: &str) -> Option<i64> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|it| it.st_mtime)
    }

    /// Syncs the directory, so that created, renamed and removed names survive a power failure.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.notify("sync a directory", "");
        fsync(&self.fd).map_err(|it| self.errno_error("sync", "", it))
    }

    pub(crate) fn sync_file(&self, name: &str) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let fd = self
            .open(name, flags, Mode::empty())
            .map_err(|it| self.errno_error("open", name, it))?;
        self.notify("sync a file", name);
        fsync(&fd).map_err(|it| self.errno_error("sync", name, it))
    }

    /// Fails if the directory was moved away or replaced.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        if self.is_in_place() { Ok(()) } else { Err(self.moved_error()) }
    }

    fn is_in_place(&self) -> bool {
        let path = if self.path.is_empty() { "." } else { &self.path };
        let there =
            open_beneath(self.root.as_fd(), path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        let (Ok(there), Ok(here)) = (there.and_then(fstat), fstat(&self.fd)) else { return false };
        (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
    }

    /// Writes the bytes in two parts, so that tests can interrupt the write between them. Callers must expect partial
    /// writes anyway.
    fn write_in_two_parts(&self, fd: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::from(fd.try_clone()?);
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(half)?;
        self.notify("write the rest of a file", name);
        file.write_all(rest)
    }

    /// Calls the test hook with the operation that is about to be performed.
    pub(crate) fn notify(&self, what: &'static str, name: &str) {
        self.hook.notify(what, || self.full_path(name));
    }

    fn moved_error(&self) -> Error {
        Error::Unsafe {
            path: escape_for_message(&self.path),
            fault: "the directory was moved while a file in it was being written",
        }
    }

    fn open(&self, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        open_beneath(self.fd.as_fd(), path, flags, mode)
    }

    fn require_regular_file(&self, path: &str, fd: &OwnedFd) -> Result<Stat, Error> {
        let stat = fstat(fd).map_err(|it| self.errno_error("inspect", path, it))?;
        let fault = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink == 1 => return Ok(stat),
            FileType::RegularFile => "the file has several hard links",
            FileType::Directory => "it is a directory",
            _ => "it is not a regular file",
        };
        Err(Error::Unsafe { path: self.join(path), fault })
    }

    fn full_path(&self, path: &str) -> String {
        match (self.path.as_str(), path) {
            ("", path) | (path, "") => path.to_owned(),
            (dir, path) => format!("{dir}/{path}"),
        }
    }

    fn join(&self, path: &str) -> String {
        self.full_path(&escape_for_message(path))
    }

    /// Converts the error of a system call on a path to an [`Error`].
    fn errno_error(&self, action: &'static str, path: &str, error: Errno) -> Error {
        let fault = match error {
            Errno::LOOP => "the path contains a symbolic link",
            Errno::XDEV => "the path leaves the workspace or crosses a mount point",
            Errno::NOTDIR => "a component of the path is not a directory",
            Errno::ISDIR => "it is a directory",
            Errno::NXIO => "it is not a regular file",
            Errno::NOENT => return Error::Missing { path: self.join(path) },
            Errno::EXIST => return Error::Exists { path: self.join(path) },
            _ => return self.io_error(action, path, error.into()),
        };
        Error::Unsafe { path: self.join(path), fault }
    }

    fn io_error(&self, action: &'static str, path: &str, source: io::Error) -> Error {
        Error::Io { action, path: self.join(path), source }
    }
}

/// Returns an unpredictable name for a temporary file.
pub(crate) fn temp_name() -> String {
    format!(".{}.draft-gate-tmp", random_hex())
}

/// Returns whether a name was created by [`temp_name`].
pub(crate) fn is_temp_name(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".draft-gate-tmp")
}

/// Returns 16 random hexadecimal digits.
pub(crate) fn random_hex() -> String {
    let random = getrandom::u64().expect("the operating system provides random bytes");
    format!("{random:016x}")
}

fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    loop {
        match openat2(dir, path, flags | OFlags::CLOEXEC, mode, RESOLVE) {
            // The kernel returns `EAGAIN` if something was renamed during the lookup. The call must then be repeated.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_not_crossed() {
        let root = Dir::open_root(Path::new("/"), Hook::default()).unwrap();
        let error = root.read("proc/version", 1 << 20).unwrap_err();
        assert!(error.to_string().contains("crosses a mount point"), "{error}");
    }

    #[test]
    fn writes_to_a_moved_directory_are_undone() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outer.path().join("ws/inner")).unwrap();
        let root = Dir::open_root(&outer.path().join("ws"), Hook::default()).unwrap();
        let inner = root.subdir("inner").unwrap();
        std::fs::rename(outer.path().join("ws/inner"), outer.path().join("stolen")).unwrap();
        assert!(inner.replace("file", b"bytes".to_vec(), Durability::ProcessCrash).is_err());
        // The write is also undone if another directory has taken the place of the moved one.
        std::fs::create_dir(outer.path().join("ws/inner")).unwrap();
        assert!(inner.replace("file", b"bytes".to_vec(), Durability::ProcessCrash).is_err());
        assert_eq!(std::fs::read_dir(outer.path().join("stolen")).unwrap().count(), 0);
    }
}

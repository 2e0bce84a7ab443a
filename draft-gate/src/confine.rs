//! The one place that touches files: everything is opened beneath a folder's descriptor, and nothing is followed.
//!
//! A path is never checked and then used: the kernel resolves it in one call (`openat2`) that refuses symbolic links,
//! magic links, mounts and every way up. What is opened has to be a regular file with one link. Files are
//! written under a fresh name and moved into place. A folder that was moved away while something was written in it is
//! noticed, and what was written is taken back.

mod in_place;
mod mode;

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

use self::mode::PRIVATE_FILE;
pub(crate) use self::mode::new_file_mode;
use crate::{
    error::{Error, shown},
    hook::Hook,
};

/// An open folder, and how it was reached.
#[derive(Debug)]
pub(crate) struct Folder {
    root: Arc<OwnedFd>,
    fd: OwnedFd,
    /// From the root, for messages and for looking whether it still is there.
    path: String,
    hook: Hook,
}

/// What a regular file held when it was read.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    /// Permission bits, without those that set an owner.
    pub(crate) mode: u32,
}

/// Whether a write has to outlive a power cut, or only this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Keep {
    ThroughPowerCut,
    ThroughCrash,
}

/// Holds the lock of a file until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing it lets go of the lock")] OwnedFd);

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Folder {
    /// Opens a workspace. Its own path may lead over links: whoever starts the gate chooses it.
    pub(crate) fn root(path: &Path, hook: Hook) -> io::Result<Self> {
        let fd = rustix::fs::open(path, FOLDER | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root: Arc::new(fd.try_clone()?), fd, path: String::new(), hook })
    }

    /// Opens a folder beneath this one; an empty path is this one again.
    pub(crate) fn folder(&self, path: &str) -> Result<Self, Error> {
        let beneath = if path.is_empty() { "." } else { path };
        let fd = self
            .open(beneath, FOLDER, Mode::empty())
            .map_err(|it| self.refused("open", path, it))?;
        // The whole path, and not as messages show it: it is opened again to see whether the folder is in place.
        let path = match (self.path.as_str(), path) {
            ("", path) => path.to_owned(),
            (folder, "") => folder.to_owned(),
            (folder, path) => format!("{folder}/{path}"),
        };
        Ok(Self { root: self.root.clone(), fd, path, hook: self.hook.clone() })
    }

    /// Opens a folder beneath this one, and makes what is missing of it.
    pub(crate) fn make_folder(&self, path: &str) -> Result<Self, Error> {
        self.make_folder_as(path, 0o777)
    }

    fn make_folder_as(&self, path: &str, mode: u32) -> Result<Self, Error> {
        let mut folder = self.folder("")?;
        for name in path.split('/').filter(|it| !it.is_empty()) {
            folder.pass("make a folder", name);
            match mkdirat(&folder.fd, name, Mode::from_raw_mode(mode)) {
                Ok(()) => {
                    folder.sync()?;
                    folder = folder.folder(name)?;
                }
                Err(Errno::EXIST) => folder = folder.folder(name)?,
                Err(error) => return Err(folder.refused("make", name, error)),
            }
        }
        Ok(folder)
    }

    /// Reads a regular file with one link, which may be `limit` bytes long. Nothing is at the path: `None`.
    pub(crate) fn read(&self, path: &str, limit: u64) -> Result<Option<Content>, Error> {
        // A pipe without a writer would let us wait for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let fd = match self.open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.refused("open", path, error)),
        };
        let stat = self.plain(path, &fd)?;
        let too_large = || Error::TooLarge { path: self.join(path), limit };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > limit {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let read = File::from(fd).take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|source| self.failed("read", path, source))?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        Ok(Some(Content { bytes, mode: stat.st_mode & 0o777 }))
    }

    /// Writes a file that is not there yet, under exactly this name.
    pub(crate) fn write_new(&self, name: &str, content: &Content, keep: Keep) -> Result<(), Error> {
        self.pass("make a file", name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(content.mode);
        let fd = self.open(name, flags, mode).map_err(|it| self.refused("make", name, it))?;
        let write = || -> io::Result<()> {
            // The umask may have taken bits away.
            rustix::fs::fchmod(&fd, mode)?;
            if !self.is_in_place() {
                return Err(io::Error::other("the folder was moved away"));
            }
            self.pass("write a file", name);
            self.write_halves(&fd, name, &content.bytes)?;
            if keep == Keep::ThroughPowerCut {
                self.pass("sync a file", name);
                fsync(&fd)?;
            }
            Ok(())
        };
        write().map_err(|source| {
            let _ = unlinkat(&self.fd, name, AtFlags::empty());
            self.failed("write", name, source)
        })
    }

    /// Puts bytes of the gate's own at a name, whatever was there, in one move.
    pub(crate) fn replace(&self, name: &str, bytes: Vec<u8>, keep: Keep) -> Result<(), Error> {
        let fresh = fresh_name();
        self.write_new(&fresh, &Content { bytes, mode: PRIVATE_FILE }, keep)?;
        self.pass("move a file into place", name);
        if let Err(error) = renameat_with(&self.fd, &fresh, &self.fd, name, RenameFlags::empty()) {
            self.remove(&fresh)?;
            return Err(self.refused("replace", name, error));
        }
        if !self.is_in_place() {
            self.remove(name)?;
            return Err(self.moved());
        }
        if keep == Keep::ThroughPowerCut { self.sync() } else { Ok(()) }
    }

    /// Lets two names change places.
    pub(crate) fn exchange(&self, one: &str, other: &str) -> Result<(), Error> {
        self.pass("exchange two files", other);
        renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE)
            .map_err(|it| self.refused("exchange", other, it))
    }

    /// Moves a file to a name that is free.
    pub(crate) fn rename_new(&self, from: &str, to: &str) -> Result<(), Error> {
        self.pass("move a file", to);
        renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE)
            .map_err(|it| self.refused("make", to, it))
    }

    /// Moves a file to another folder under the same name, whatever was there.
    pub(crate) fn move_over(&self, name: &str, folder: &Self) -> Result<(), Error> {
        self.pass("move a file over", name);
        renameat_with(&self.fd, name, &folder.fd, name, RenameFlags::empty())
            .map_err(|it| folder.refused("replace", name, it))
    }

    /// Removes a name, if it is there, and never what a link leads to.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        self.pass("remove a file", name);
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.refused("remove", name, error)),
        }
    }

    /// Waits for the lock of a file, which is made where it is missing.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = self
            .open(name, flags, Mode::from_raw_mode(PRIVATE_FILE))
            .map_err(|it| self.refused("open", name, it))?;
        loop {
            match flock(&fd, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Lock(fd)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.refused("lock", name, error)),
            }
        }
    }

    /// The names in the folder, in order.
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
        read().map_err(|it| self.refused("list", "", it))
    }

    /// Removes a folder that is empty; any other stays.
    pub(crate) fn remove_empty(&self, name: &str) {
        self.pass("remove a folder", name);
        let _ = unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    /// Whether anything has this name, be it what it may.
    pub(crate) fn has(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// When a file was last written, in seconds since 1970.
    pub(crate) fn written_at(&self, name: &str) -> Option<i64> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|it| it.st_mtime)
    }

    /// Lets what happened to names in the folder outlive a power cut.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.pass("sync a folder", "");
        fsync(&self.fd).map_err(|it| self.refused("sync", "", it))
    }

    /// Lets a file that was written before outlive a power cut.
    pub(crate) fn sync_file(&self, name: &str) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let fd =
            self.open(name, flags, Mode::empty()).map_err(|it| self.refused("open", name, it))?;
        self.pass("sync a file", name);
        fsync(&fd).map_err(|it| self.refused("sync", name, it))
    }

    /// Fails where the folder was moved away, or something else put in its place.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        if self.is_in_place() { Ok(()) } else { Err(self.moved()) }
    }

    fn is_in_place(&self) -> bool {
        let path = if self.path.is_empty() { "." } else { &self.path };
        let there =
            open_beneath(self.root.as_fd(), path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        let (Ok(there), Ok(here)) = (there.and_then(fstat), fstat(&self.fd)) else { return false };
        (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
    }

    /// Writes bytes so that a test can stop between them: what is there then has to be dealt with anyway.
    fn write_halves(&self, fd: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::from(fd.try_clone()?);
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(half)?;
        self.pass("write the rest of a file", name);
        file.write_all(rest)
    }

    /// Tells whoever watches what is about to happen to which path.
    fn pass(&self, what: &'static str, name: &str) {
        self.hook.pass(what, || match (self.path.as_str(), name) {
            ("", path) | (path, "") => path.to_owned(),
            (folder, name) => format!("{folder}/{name}"),
        });
    }

    fn moved(&self) -> Error {
        Error::Unsafe {
            path: shown(&self.path),
            fault: "the folder was moved while it was written to",
        }
    }

    fn open(&self, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        open_beneath(self.fd.as_fd(), path, flags, mode)
    }

    fn plain(&self, path: &str, fd: &OwnedFd) -> Result<Stat, Error> {
        let stat = fstat(fd).map_err(|it| self.refused("look at", path, it))?;
        let fault = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink == 1 => return Ok(stat),
            FileType::RegularFile => "the file has several names (hard links)",
            FileType::Directory => "it is a folder",
            _ => "it is no regular file",
        };
        Err(Error::Unsafe { path: self.join(path), fault })
    }

    fn join(&self, path: &str) -> String {
        match (self.path.as_str(), path) {
            ("", path) => shown(path),
            (folder, "") => folder.to_owned(),
            (folder, path) => format!("{folder}/{}", shown(path)),
        }
    }

    /// What an error of the kernel says about a path.
    fn refused(&self, what: &'static str, path: &str, error: Errno) -> Error {
        let fault = match error {
            Errno::LOOP => "a symbolic link is on the way",
            Errno::XDEV => "the way leads out of the workspace, or over a mount",
            Errno::NOTDIR => "a part of the path is no folder",
            Errno::ISDIR => "it is a folder",
            Errno::NXIO => "it is no regular file",
            Errno::NOENT => return Error::Missing { path: self.join(path) },
            Errno::EXIST => return Error::Exists { path: self.join(path), what: "" },
            _ => return self.failed(what, path, error.into()),
        };
        Error::Unsafe { path: self.join(path), fault }
    }

    fn failed(&self, what: &'static str, path: &str, source: io::Error) -> Error {
        Error::Io { what, path: self.join(path), source }
    }
}

/// A name for a temporary file that nobody can foresee.
pub(crate) fn fresh_name() -> String {
    format!(".{}.draft-gate-tmp", random_hex())
}

/// Whether a name is one of [`fresh_name`]'s.
pub(crate) fn is_fresh_name(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".draft-gate-tmp")
}

/// Sixteen random digits.
pub(crate) fn random_hex() -> String {
    let random = getrandom::u64().expect("the system has randomness");
    format!("{random:016x}")
}

fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    loop {
        match openat2(folder, path, flags | OFlags::CLOEXEC, mode, RESOLVE) {
            // The kernel gives up where something was renamed while it looked; it asks to be asked again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_not_crossed() {
        let root = Folder::root(Path::new("/"), Hook::default()).unwrap();
        let error = root.read("proc/version", 1 << 20).unwrap_err();
        assert!(error.to_string().contains("over a mount"), "{error}");
    }

    #[test]
    fn a_folder_that_was_moved_keeps_nothing() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outer.path().join("ws/inner")).unwrap();
        let root = Folder::root(&outer.path().join("ws"), Hook::default()).unwrap();
        let inner = root.folder("inner").unwrap();
        std::fs::rename(outer.path().join("ws/inner"), outer.path().join("stolen")).unwrap();
        assert!(inner.replace("file", b"bytes".to_vec(), Keep::ThroughCrash).is_err());
        // Nor where another one has its place.
        std::fs::create_dir(outer.path().join("ws/inner")).unwrap();
        assert!(inner.replace("file", b"bytes".to_vec(), Keep::ThroughCrash).is_err());
        assert_eq!(std::fs::read_dir(outer.path().join("stolen")).unwrap().count(), 0);
    }
}

//! System calls for files, which are identified by path or by descriptor.

use std::rc::Rc;

use nix::libc;
use rustix::io::Errno;

use super::{
    Kernel,
    call::CallResult,
    descriptors::{Object, OpenFile},
    host::{Clock, HostIo},
    layout,
};
use crate::backend::kvm_process::disk::{FileKind, Metadata, ROOT};

/// `AT_FDCWD`, which denotes the current directory, as a register value.
pub(super) const AT_CWD: u64 = libc::AT_FDCWD as u64;

/// Maximum number of bytes of a directory listing that one call returns.
const MAX_LISTING: u64 = 64 << 10;

/// Maximum depth of a directory whose path `getcwd` can return.
const MAX_DEPTH: usize = 256;

impl<O: HostIo> Kernel<O> {
    pub(super) fn open_at(&mut self, from: u64, path: u64, flags: u64, mode: u64) -> CallResult {
        let (from, path) = (self.base_dir(from)?, self.read_c_string(path)?);
        let flag = |it: i32| flags as i32 & it != 0;
        if let Some(library) = self.libraries.iter().find(|it| it.path == path) {
            let open = OpenFile::new(Object::Library(library.clone()), flags);
            return match open.mode.write || flag(libc::O_TRUNC | libc::O_DIRECTORY) {
                true => Err(Errno::ROFS.into()),
                false => Ok(self.descriptors.add(Rc::new(open), 0, flag(libc::O_CLOEXEC))?),
            };
        }
        let creates = flag(libc::O_CREAT);
        let found = match flag(libc::O_NOFOLLOW) || creates && flag(libc::O_EXCL) {
            true => self.disk.resolve_no_follow(from, &path),
            false => self.disk.resolve(from, &path),
        };
        let node = match found {
            Ok(_) if creates && flag(libc::O_EXCL) => return Err(Errno::EXIST.into()),
            Ok(node) => node,
            Err(Errno::NOENT) if creates => {
                let last = self.disk.resolve_parent(from, &path)?;
                // Opening a dangling symbolic link does not create a file.
                if self.disk.lookup(last).is_ok() || path.ends_with(b"/") {
                    return Err(Errno::NOENT.into());
                }
                self.update_disk_time();
                self.disk.make_file(last, mode as u32)?
            }
            Err(error) => return Err(error.into()),
        };
        let metadata = self.disk.metadata(node)?;
        let open = OpenFile::new(Object::Node(self.disk.acquire(node)?, metadata.kind), flags);
        match metadata.kind {
            FileKind::Link => return Err(Errno::LOOP.into()),
            FileKind::Directory if open.mode.write || creates => return Err(Errno::ISDIR.into()),
            FileKind::File if flag(libc::O_DIRECTORY) => return Err(Errno::NOTDIR.into()),
            FileKind::File if flag(libc::O_TRUNC) && open.mode.write => {
                self.disk.resize(node, 0)?
            }
            FileKind::File | FileKind::Directory => {}
        }
        let open = Rc::new(open);
        let added = self.descriptors.add(open.clone(), 0, flag(libc::O_CLOEXEC));
        self.drop_open(open);
        Ok(added?)
    }

    pub(super) fn fstat(&mut self, fd: u64, at: u64) -> CallResult {
        let metadata = self.metadata_of(fd)?;
        self.space.write(at, &layout::stat(&metadata))?;
        Ok(0)
    }

    pub(super) fn stat_at(&mut self, from: u64, path: u64, at: u64, flags: u64) -> CallResult {
        let metadata = self.metadata_at(from, path, flags)?;
        self.space.write(at, &layout::stat(&metadata))?;
        Ok(0)
    }

    pub(super) fn statx(&mut self, from: u64, path: u64, flags: u64, at: u64) -> CallResult {
        let metadata = self.metadata_at(from, path, flags)?;
        self.space.write(at, &layout::statx(&metadata))?;
        Ok(0)
    }

    pub(super) fn getdents(&mut self, fd: u64, at: u64, len: u64) -> CallResult {
        let open = self.open(fd)?;
        let Object::Node(node, FileKind::Directory) = &open.object else {
            return Err(Errno::NOTDIR.into());
        };
        let most = len.min(MAX_LISTING) as usize;
        let (mut bytes, mut last) = (Vec::new(), open.offset.get());
        for entry in self.disk.list(**node, last)? {
            let encoded = layout::dirent(&entry);
            if bytes.len() + encoded.len() > most {
                if bytes.is_empty() {
                    return Err(Errno::INVAL.into());
                }
                break;
            }
            bytes.extend(encoded);
            last = entry.number;
        }
        self.space.write(at, &bytes)?;
        open.offset.set(last);
        Ok(bytes.len() as u64)
    }

    pub(super) fn make_dir(&mut self, from: u64, path: u64, mode: u64) -> CallResult {
        let (from, path) = (self.base_dir(from)?, self.read_c_string(path)?);
        self.update_disk_time();
        self.disk.make_dir(self.disk.resolve_parent(from, &path)?, mode as u32)?;
        Ok(0)
    }

    pub(super) fn make_link(&mut self, target: u64, from: u64, path: u64) -> CallResult {
        let (target, from, path) =
            (self.read_c_string(target)?, self.base_dir(from)?, self.read_c_string(path)?);
        if target.is_empty() {
            return Err(Errno::NOENT.into());
        }
        self.update_disk_time();
        self.disk.make_link(self.disk.resolve_parent(from, &path)?, &target)?;
        Ok(0)
    }

    pub(super) fn read_link(&mut self, from: u64, path: u64, at: u64, len: u64) -> CallResult {
        let (from, path) = (self.base_dir(from)?, self.read_c_string(path)?);
        let target = self.disk.read_link(self.disk.resolve_no_follow(from, &path)?)?;
        let target = &target[..target.len().min(len as usize)];
        self.space.write(at, target)?;
        Ok(target.len() as u64)
    }

    pub(super) fn unlink_at(&mut self, from: u64, path: u64, flags: u64) -> CallResult {
        let (from, path) = (self.base_dir(from)?, self.read_c_string(path)?);
        let last = self.disk.resolve_parent(from, &path)?;
        self.update_disk_time();
        match flags as i32 & libc::AT_REMOVEDIR {
            0 => self.disk.remove_file(last)?,
            _ if matches!(last.name, b"." | b"..") => return Err(Errno::INVAL.into()),
            _ => self.disk.remove_dir(last)?,
        }
        Ok(0)
    }

    pub(super) fn rename(&mut self, from: u64, old: u64, to: u64, new: u64) -> CallResult {
        let (from, to) = (self.base_dir(from)?, self.base_dir(to)?);
        let (old, new) = (self.read_c_string(old)?, self.read_c_string(new)?);
        let (old, new) =
            (self.disk.resolve_parent(from, &old)?, self.disk.resolve_parent(to, &new)?);
        if matches!(old.name, b"." | b"..") {
            return Err(Errno::BUSY.into());
        }
        self.update_disk_time();
        self.disk.rename(old, new)?;
        Ok(0)
    }

    /// Handles `access`. Access to an existing file is always allowed, because the disk has no permissions per user.
    pub(super) fn access(&mut self, from: u64, path: u64) -> CallResult {
        self.metadata_at(from, path, 0)?;
        Ok(0)
    }

    pub(super) fn chmod(&mut self, from: u64, path: u64, mode: u64) -> CallResult {
        let node = self.metadata_at(from, path, 0)?.node;
        self.disk.set_mode(node, mode as u32)?;
        Ok(0)
    }

    pub(super) fn truncate(&mut self, fd: u64, len: u64) -> CallResult {
        let open = self.open(fd)?;
        match &open.object {
            Object::Node(node, FileKind::File) if open.mode.write && i64::try_from(len).is_ok() => {
                self.update_disk_time();
                self.disk.resize(**node, len)?;
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn statfs(&mut self, at: u64) -> CallResult {
        let (all, free) = self.disk.capacity_and_free();
        self.space.write(at, &layout::statfs(all, free))?;
        Ok(0)
    }

    pub(super) fn getcwd(&mut self, at: u64, len: u64) -> CallResult {
        let mut path = self.disk.path_of(*self.cwd, MAX_DEPTH)?;
        path.push(0);
        if path.len() as u64 > len {
            return Err(Errno::RANGE.into());
        }
        self.space.write(at, &path)?;
        Ok(path.len() as u64)
    }

    pub(super) fn chdir(&mut self, path: u64) -> CallResult {
        let path = self.read_c_string(path)?;
        let node = self.disk.resolve(*self.cwd, &path)?;
        if self.disk.metadata(node)?.kind != FileKind::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let old = std::mem::replace(&mut self.cwd, self.disk.acquire(node)?);
        self.disk.release(old);
        Ok(0)
    }

    /// Returns the directory at which a relative path starts.
    fn base_dir(&self, from: u64) -> Result<u64, Errno> {
        if from as i32 == libc::AT_FDCWD {
            return Ok(*self.cwd);
        }
        match &self.open(from)?.object {
            Object::Node(node, FileKind::Directory) => Ok(**node),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn metadata_at(&self, from: u64, path: u64, flags: u64) -> Result<Metadata, Errno> {
        let path = self.read_c_string(path)?;
        if path.is_empty()
            && flags as i32 & libc::AT_EMPTY_PATH != 0
            && from as i32 != libc::AT_FDCWD
        {
            return self.metadata_of(from);
        }
        // For an absolute path, the directory `from` is ignored, even if it is invalid.
        let from = if path.starts_with(b"/") { ROOT } else { self.base_dir(from)? };
        let node = match flags as i32 & libc::AT_SYMLINK_NOFOLLOW {
            0 => self.disk.resolve(from, &path)?,
            _ => self.disk.resolve_no_follow(from, &path)?,
        };
        self.disk.metadata(node)
    }

    /// Returns the metadata of an open file. An open object that is neither a file nor a library is reported as an
    /// empty file.
    fn metadata_of(&self, fd: u64) -> Result<Metadata, Errno> {
        let open = self.open(fd)?;
        match &open.object {
            Object::Node(node, _) => self.disk.metadata(**node),
            other => {
                let (node, size, mode) = match other {
                    Object::Library(it) => (it.node, it.len, 0o444),
                    _ => (0, 0, 0o600),
                };
                let changed = self.host.clock(Clock::Realtime);
                Ok(Metadata { node, kind: FileKind::File, size, mode, changed })
            }
        }
    }

    /// Updates the time stamp that the disk stores with later changes.
    fn update_disk_time(&mut self) {
        self.disk.now = self.host.clock(Clock::Realtime);
    }
}

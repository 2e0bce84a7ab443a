//! Files, by path and by descriptor.

use std::rc::Rc;

use nix::libc;
use rustix::io::Errno;

use super::{
    Answer, Clock, Kernel, Outside,
    descriptors::{Object, Open},
    layout,
};
use crate::backend::kvm_process::disk::{Facts, Kind, ROOT};

/// Stands for the current folder, as an `int` does in a register.
pub(super) const AT_CWD: u64 = libc::AT_FDCWD as u64;

/// How many bytes of a listing one call gives at most.
const MAX_LISTING: u64 = 64 << 10;

/// How deep a folder may be whose path is asked for.
const MAX_DEPTH: usize = 256;

impl<O: Outside> Kernel<O> {
    pub(super) fn open_at(&mut self, from: u64, path: u64, flags: u64, mode: u64) -> Answer {
        let (from, path) = (self.folder(from)?, self.text(path)?);
        let flag = |it: i32| flags as i32 & it != 0;
        let creates = flag(libc::O_CREAT);
        let found = match flag(libc::O_NOFOLLOW) || creates && flag(libc::O_EXCL) {
            true => self.disk.find(from, &path),
            false => self.disk.follow(from, &path),
        };
        let node = match found {
            Ok(_) if creates && flag(libc::O_EXCL) => return Err(Errno::EXIST.into()),
            Ok(node) => node,
            Err(Errno::NOENT) if creates => {
                let last = self.disk.last(from, &path)?;
                // A link that leads nowhere is no way to make a file.
                if self.disk.entry(last).is_ok() || path.ends_with(b"/") {
                    return Err(Errno::NOENT.into());
                }
                self.tick();
                self.disk.make_file(last, mode as u32)?
            }
            Err(error) => return Err(error.into()),
        };
        let facts = self.disk.facts(node)?;
        let open = Open::new(Object::Node(self.disk.hold(node)?, facts.kind), flags);
        match facts.kind {
            Kind::Link => return Err(Errno::LOOP.into()),
            Kind::Folder if open.may.write || creates => return Err(Errno::ISDIR.into()),
            Kind::File if flag(libc::O_DIRECTORY) => return Err(Errno::NOTDIR.into()),
            Kind::File if flag(libc::O_TRUNC) && open.may.write => self.disk.resize(node, 0)?,
            Kind::File | Kind::Folder => {}
        }
        let open = Rc::new(open);
        let added = self.descriptors.add(open.clone(), 0, flag(libc::O_CLOEXEC));
        self.drop_open(open);
        Ok(added?)
    }

    pub(super) fn fstat(&mut self, fd: u64, at: u64) -> Answer {
        let facts = self.facts_of(fd)?;
        self.space.write(at, &layout::stat(&facts))?;
        Ok(0)
    }

    pub(super) fn stat_at(&mut self, from: u64, path: u64, at: u64, flags: u64) -> Answer {
        let facts = self.facts_at(from, path, flags)?;
        self.space.write(at, &layout::stat(&facts))?;
        Ok(0)
    }

    pub(super) fn statx(&mut self, from: u64, path: u64, flags: u64, at: u64) -> Answer {
        let facts = self.facts_at(from, path, flags)?;
        self.space.write(at, &layout::statx(&facts))?;
        Ok(0)
    }

    pub(super) fn list(&mut self, fd: u64, at: u64, len: u64) -> Answer {
        let open = self.open(fd)?;
        let Object::Node(held, Kind::Folder) = &open.object else {
            return Err(Errno::NOTDIR.into());
        };
        let most = len.min(MAX_LISTING) as usize;
        let (mut bytes, mut last) = (Vec::new(), open.offset.get());
        for entry in self.disk.list(**held, last)? {
            let laid = layout::entry(&entry);
            if bytes.len() + laid.len() > most {
                if bytes.is_empty() {
                    return Err(Errno::INVAL.into());
                }
                break;
            }
            bytes.extend(laid);
            last = entry.number;
        }
        self.space.write(at, &bytes)?;
        open.offset.set(last);
        Ok(bytes.len() as u64)
    }

    pub(super) fn make_folder(&mut self, from: u64, path: u64, mode: u64) -> Answer {
        let (from, path) = (self.folder(from)?, self.text(path)?);
        self.tick();
        self.disk.make_folder(self.disk.last(from, &path)?, mode as u32)?;
        Ok(0)
    }

    pub(super) fn make_link(&mut self, target: u64, from: u64, path: u64) -> Answer {
        let (target, from, path) = (self.text(target)?, self.folder(from)?, self.text(path)?);
        if target.is_empty() {
            return Err(Errno::NOENT.into());
        }
        self.tick();
        self.disk.make_link(self.disk.last(from, &path)?, &target)?;
        Ok(0)
    }

    pub(super) fn read_link(&mut self, from: u64, path: u64, at: u64, len: u64) -> Answer {
        let (from, path) = (self.folder(from)?, self.text(path)?);
        let target = self.disk.read_link(self.disk.find(from, &path)?)?;
        let target = &target[..target.len().min(len as usize)];
        self.space.write(at, target)?;
        Ok(target.len() as u64)
    }

    pub(super) fn unlink_at(&mut self, from: u64, path: u64, flags: u64) -> Answer {
        let (from, path) = (self.folder(from)?, self.text(path)?);
        let last = self.disk.last(from, &path)?;
        self.tick();
        match flags as i32 & libc::AT_REMOVEDIR {
            0 => self.disk.remove_file(last)?,
            _ if matches!(last.name, b"." | b"..") => return Err(Errno::INVAL.into()),
            _ => self.disk.remove_folder(last)?,
        }
        Ok(0)
    }

    pub(super) fn rename(&mut self, from: u64, old: u64, to: u64, new: u64) -> Answer {
        let (from, to) = (self.folder(from)?, self.folder(to)?);
        let (old, new) = (self.text(old)?, self.text(new)?);
        let (old, new) = (self.disk.last(from, &old)?, self.disk.last(to, &new)?);
        if matches!(old.name, b"." | b"..") {
            return Err(Errno::BUSY.into());
        }
        self.tick();
        self.disk.rename(old, new)?;
        Ok(0)
    }

    /// Whoever is there may do all that the disk lets anybody do.
    pub(super) fn access(&mut self, from: u64, path: u64) -> Answer {
        self.facts_at(from, path, 0)?;
        Ok(0)
    }

    pub(super) fn change_mode(&mut self, from: u64, path: u64, mode: u64) -> Answer {
        let node = self.facts_at(from, path, 0)?.node;
        self.disk.set_mode(node, mode as u32)?;
        Ok(0)
    }

    pub(super) fn truncate(&mut self, fd: u64, len: u64) -> Answer {
        let open = self.open(fd)?;
        match &open.object {
            Object::Node(held, Kind::File) if open.may.write && i64::try_from(len).is_ok() => {
                self.tick();
                self.disk.resize(**held, len)?;
                Ok(0)
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn statfs(&mut self, at: u64) -> Answer {
        let (all, free) = self.disk.room();
        self.space.write(at, &layout::statfs(all, free))?;
        Ok(0)
    }

    pub(super) fn current_folder(&mut self, at: u64, len: u64) -> Answer {
        let mut path = self.disk.path(*self.current, MAX_DEPTH)?;
        path.push(0);
        if path.len() as u64 > len {
            return Err(Errno::RANGE.into());
        }
        self.space.write(at, &path)?;
        Ok(path.len() as u64)
    }

    pub(super) fn change_folder(&mut self, path: u64) -> Answer {
        let path = self.text(path)?;
        let node = self.disk.follow(*self.current, &path)?;
        if self.disk.facts(node)?.kind != Kind::Folder {
            return Err(Errno::NOTDIR.into());
        }
        let old = std::mem::replace(&mut self.current, self.disk.hold(node)?);
        self.disk.let_go(old);
        Ok(0)
    }

    /// The folder that a path starts at.
    fn folder(&self, from: u64) -> Result<u64, Errno> {
        if from as i32 == libc::AT_FDCWD {
            return Ok(*self.current);
        }
        match &self.open(from)?.object {
            Object::Node(held, Kind::Folder) => Ok(**held),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn facts_at(&self, from: u64, path: u64, flags: u64) -> Result<Facts, Errno> {
        let path = self.text(path)?;
        if path.is_empty()
            && flags as i32 & libc::AT_EMPTY_PATH != 0
            && from as i32 != libc::AT_FDCWD
        {
            return self.facts_of(from);
        }
        // An absolute path needs no folder to start at, whatever the guest says of one.
        let from = if path.starts_with(b"/") { ROOT } else { self.folder(from)? };
        let node = match flags as i32 & libc::AT_SYMLINK_NOFOLLOW {
            0 => self.disk.follow(from, &path)?,
            _ => self.disk.find(from, &path)?,
        };
        self.disk.facts(node)
    }

    /// What is known of an open file. Whatever else is open looks like an empty file that has no name.
    fn facts_of(&self, fd: u64) -> Result<Facts, Errno> {
        let open = self.open(fd)?;
        match &open.object {
            Object::Node(held, _) => self.disk.facts(**held),
            _ => Ok(Facts {
                node: 0,
                kind: Kind::File,
                size: 0,
                mode: 0o600,
                changed: self.outside.clock(Clock::Epoch),
            }),
        }
    }

    /// Changes from now on are marked with the time.
    fn tick(&mut self) {
        self.disk.now = self.outside.clock(Clock::Epoch);
    }
}

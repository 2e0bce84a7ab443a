//! The guest's file system, a tree in the monitor's memory with a limited size and number of files.
//!
//! This module does not depend on descriptors or guest memory, and the tree contains no host files. The guest can write
//! below `/workspace` and `/tmp`. The root directory itself is read-only.

mod directory;
mod walk;

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use rustix::io::Errno;

use self::directory::Directory;

pub(super) const ROOT: u64 = 1;

/// Block size in bytes. Files occupy whole blocks, as on any disk.
const BLOCK: u64 = 4096;

const MAX_NAME: usize = 255;

/// The last component of a path, and the directory that should contain it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathTail<'a> {
    pub(super) dir: u64,
    pub(super) name: &'a [u8],
}

/// Number of bytes and number of files, either of a whole disk or of the part that is free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

#[derive(Debug)]
pub(super) struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    capacity: Capacity,
    used: u64,
    /// Time stamp that is stored with each change. Callers update it before they make a change.
    pub(super) now: Duration,
}

/// Reference to an open file. It keeps the file alive, even after the file is removed from its directory.
pub(super) type NodeRef = Rc<u64>;

#[derive(Debug)]
struct Node {
    reference: NodeRef,
    content: Content,
    changed: Duration,
    /// Whether a directory contains the node. The root directory counts as contained.
    is_linked: bool,
    mode: u32,
}

#[derive(Debug)]
enum Content {
    File(Vec<u8>),
    Directory(Directory),
    Link(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    File,
    Directory,
    Link,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Metadata {
    pub(super) node: u64,
    pub(super) kind: FileKind,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) changed: Duration,
}

#[derive(Debug)]
pub(super) struct DirEntry {
    /// Number of the entry. A listing can continue after this number.
    pub(super) number: u64,
    pub(super) node: u64,
    pub(super) kind: FileKind,
    pub(super) name: Rc<[u8]>,
}

impl Disk {
    /// Creates a disk that contains the directories `writable`, to which the guest may write.
    pub(super) fn new(capacity: Capacity, writable: &[&str]) -> Self {
        let mut disk = Self {
            nodes: BTreeMap::new(),
            next: ROOT,
            capacity: Capacity {
                files: capacity.files.saturating_add(1 + writable.len() as u64),
                ..capacity
            },
            used: 0,
            now: Duration::ZERO,
        };
        let root = disk.insert(Content::Directory(Directory::new(ROOT)), 0o755);
        debug_assert_eq!(root, Ok(ROOT), "the root is the first node");
        for name in writable {
            let name = name.trim_start_matches('/').as_bytes();
            let dir = disk.insert(Content::Directory(Directory::new(ROOT)), 0o777);
            if let (Ok(dir), Ok(root)) = (dir, disk.dir_mut(ROOT)) {
                root.add(name, dir);
            }
        }
        disk
    }

    /// Returns the capacity, and the part of it that is free.
    pub(super) fn capacity_and_free(&self) -> (Capacity, Capacity) {
        let files = self.capacity.files.saturating_sub(self.nodes.len() as u64);
        (self.capacity, Capacity { bytes: self.capacity.bytes - self.used, files })
    }

    pub(super) fn metadata(&self, node: u64) -> Result<Metadata, Errno> {
        let it = self.node(node)?;
        let (kind, size) = match &it.content {
            Content::File(bytes) => (FileKind::File, bytes.len() as u64),
            Content::Directory(_) => (FileKind::Directory, BLOCK),
            Content::Link(target) => (FileKind::Link, target.len() as u64),
        };
        Ok(Metadata { node, kind, size, mode: it.mode, changed: it.changed })
    }

    /// Returns a reference that keeps a file alive until it is [released](Self::release).
    pub(super) fn acquire(&self, node: u64) -> Result<NodeRef, Errno> {
        Ok(self.node(node)?.reference.clone())
    }

    /// Releases a reference. Removes the file if no directory contains it and nothing else refers to it.
    pub(super) fn release(&mut self, reference: NodeRef) {
        let node = *reference;
        drop(reference);
        self.remove_if_unused(node);
    }

    pub(super) fn read(&self, node: u64, at: u64, len: usize) -> Result<&[u8], Errno> {
        match &self.node(node)?.content {
            Content::File(bytes) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let end = start.saturating_add(len).min(bytes.len());
                Ok(&bytes[start..end])
            }
            Content::Directory(_) => Err(Errno::ISDIR),
            Content::Link(_) => Err(Errno::INVAL),
        }
    }

    /// Writes as many bytes as fit on the disk, and returns their number.
    pub(super) fn write(&mut self, node: u64, at: u64, from: &[u8]) -> Result<usize, Errno> {
        let old = self.metadata(node)?.size;
        let end = at.checked_add(from.len() as u64).ok_or(Errno::FBIG)?;
        let max = self.max_size(old);
        if from.is_empty() {
            return Ok(0);
        }
        if at >= max && end > old {
            return Err(Errno::NOSPC);
        }
        let end = end.min(max.max(old));
        self.resize(node, end.max(old))?;
        let now = self.now;
        let it = self.node_mut(node)?;
        it.changed = now;
        let Content::File(bytes) = &mut it.content else { return Err(Errno::INVAL) };
        let (start, end) = (at as usize, end as usize);
        bytes[start..end].copy_from_slice(&from[..end - start]);
        Ok(end - start)
    }

    /// Truncates a file, or extends it with zeros.
    pub(super) fn resize(&mut self, node: u64, size: u64) -> Result<(), Errno> {
        let old = self.metadata(node)?.size;
        if size > old && size > self.max_size(old) {
            return Err(Errno::NOSPC);
        }
        let now = self.now;
        let it = self.node_mut(node)?;
        let Content::File(bytes) = &mut it.content else { return Err(Errno::INVAL) };
        it.changed = now;
        let new = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        if new > bytes.capacity() {
            // Reserve a little more than needed, but less than the doubled size that a growing vector would reserve.
            let ahead = (new / 8).next_multiple_of(BLOCK as usize);
            bytes.reserve_exact(new + ahead - bytes.len());
        }
        bytes.resize(new, 0);
        bytes.shrink_to(new.saturating_mul(2));
        self.used = self.used - blocks(old) + blocks(size);
        Ok(())
    }

    /// Returns the directory entries that have a number greater than `after`. The first two entries of a directory are
    /// the directory itself and its parent.
    pub(super) fn list(
        &self,
        node: u64,
        after: u64,
    ) -> Result<impl Iterator<Item = DirEntry>, Errno> {
        let dir = self.dir(node)?;
        let own = [(1, ".", node), (2, "..", dir.parent)].into_iter();
        let own = own.map(|(number, name, node)| (number, Rc::from(name.as_bytes()), node));
        let others = dir.entries.range(after.saturating_add(1)..);
        let others = others.map(|(number, (name, node))| (*number, name.clone(), *node));
        let all = own.filter(move |it| it.0 > after).chain(others);
        Ok(all.map(|(number, name, node)| {
            let kind = self.metadata(node).map_or(FileKind::File, |it| it.kind);
            DirEntry { number, node, kind, name }
        }))
    }

    pub(super) fn make_file(&mut self, tail: PathTail<'_>, mode: u32) -> Result<u64, Errno> {
        self.create(tail, Content::File(Vec::new()), mode)
    }

    pub(super) fn make_dir(&mut self, tail: PathTail<'_>, mode: u32) -> Result<u64, Errno> {
        self.create(tail, Content::Directory(Directory::new(tail.dir)), mode)
    }

    pub(super) fn make_link(&mut self, tail: PathTail<'_>, target: &[u8]) -> Result<u64, Errno> {
        self.create(tail, Content::Link(target.to_vec()), 0o777)
    }

    pub(super) fn read_link(&self, node: u64) -> Result<&[u8], Errno> {
        match &self.node(node)?.content {
            Content::Link(target) => Ok(target),
            _ => Err(Errno::INVAL),
        }
    }

    pub(super) fn set_mode(&mut self, node: u64, mode: u32) -> Result<(), Errno> {
        self.node_mut(node)?.mode = mode & 0o777;
        Ok(())
    }

    /// Removes an entry that is not a directory.
    pub(super) fn remove_file(&mut self, tail: PathTail<'_>) -> Result<(), Errno> {
        let node = self.lookup(tail)?;
        if self.metadata(node)?.kind == FileKind::Directory {
            return Err(Errno::ISDIR);
        }
        self.unlink(tail)
    }

    pub(super) fn remove_dir(&mut self, tail: PathTail<'_>) -> Result<(), Errno> {
        let node = self.lookup(tail)?;
        if !self.dir(node)?.entries.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.unlink(tail)
    }

    /// Moves an entry. A file replaces an existing file, and a directory replaces an existing empty directory.
    pub(super) fn rename(&mut self, from: PathTail<'_>, to: PathTail<'_>) -> Result<(), Errno> {
        check_name(to)?;
        let node = self.lookup(from)?;
        self.check_writable(from.dir).and_then(|()| self.check_writable(to.dir))?;
        let is_dir = self.metadata(node)?.kind == FileKind::Directory;
        // A directory that is moved into itself would become unreachable.
        if is_dir && self.is_below(to.dir, node)? {
            return Err(Errno::INVAL);
        }
        match self.lookup(to) {
            Ok(other) if other == node => return Ok(()),
            Ok(_) if is_dir => self.remove_dir(to)?,
            Ok(_) => self.remove_file(to)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        self.dir_mut(from.dir)?.remove(from.name);
        self.dir_mut(to.dir)?.add(to.name, node);
        if let Content::Directory(dir) = &mut self.node_mut(node)?.content {
            dir.parent = to.dir;
        }
        Ok(())
    }

    fn is_below(&self, mut node: u64, above: u64) -> Result<bool, Errno> {
        loop {
            match node {
                it if it == above => return Ok(true),
                ROOT => return Ok(false),
                it => node = self.dir(it)?.parent,
            }
        }
    }

    fn create(&mut self, tail: PathTail<'_>, content: Content, mode: u32) -> Result<u64, Errno> {
        check_name(tail)?;
        if self.lookup(tail).is_ok() {
            return Err(Errno::EXIST);
        }
        self.check_writable(tail.dir)?;
        let node = self.insert(content, mode)?;
        let now = self.now;
        self.dir_mut(tail.dir)?.add(tail.name, node);
        self.node_mut(tail.dir)?.changed = now;
        Ok(node)
    }

    fn check_writable(&self, dir: u64) -> Result<(), Errno> {
        match dir {
            ROOT => Err(Errno::ROFS),
            // A directory that was removed while it was open accepts no new entries.
            _ if !self.node(dir)?.is_linked => Err(Errno::NOENT),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, content: Content, mode: u32) -> Result<u64, Errno> {
        if self.nodes.len() as u64 >= self.capacity.files {
            return Err(Errno::NOSPC);
        }
        let node = self.next;
        self.next += 1;
        let reference = Rc::new(node);
        let (mode, changed) = (mode & 0o777, self.now);
        self.nodes.insert(node, Node { reference, content, changed, is_linked: true, mode });
        Ok(node)
    }

    fn unlink(&mut self, tail: PathTail<'_>) -> Result<(), Errno> {
        self.check_writable(tail.dir)?;
        let node = self.lookup(tail)?;
        self.dir_mut(tail.dir)?.remove(tail.name);
        self.node_mut(node)?.is_linked = false;
        self.remove_if_unused(node);
        Ok(())
    }

    fn remove_if_unused(&mut self, node: u64) {
        let is_unused = |it: &Node| !it.is_linked && Rc::strong_count(&it.reference) == 1;
        if self.nodes.get(&node).is_some_and(is_unused)
            && let Some(Node { content: Content::File(bytes), .. }) = self.nodes.remove(&node)
        {
            self.used -= blocks(bytes.len() as u64);
        }
    }

    /// Returns the maximum size that a file with a current size of `size` can grow to.
    fn max_size(&self, size: u64) -> u64 {
        (self.capacity.bytes - self.used).saturating_add(blocks(size)) / BLOCK * BLOCK
    }

    fn node(&self, node: u64) -> Result<&Node, Errno> {
        self.nodes.get(&node).ok_or(Errno::NOENT)
    }

    fn node_mut(&mut self, node: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&node).ok_or(Errno::NOENT)
    }

    fn dir(&self, node: u64) -> Result<&Directory, Errno> {
        match &self.node(node)?.content {
            Content::Directory(dir) => Ok(dir),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn dir_mut(&mut self, node: u64) -> Result<&mut Directory, Errno> {
        match &mut self.node_mut(node)?.content {
            Content::Directory(dir) => Ok(dir),
            _ => Err(Errno::NOTDIR),
        }
    }
}

fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

fn check_name(tail: PathTail<'_>) -> Result<(), Errno> {
    match tail.name {
        b"." | b".." | b"" => Err(Errno::EXIST),
        name if name.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

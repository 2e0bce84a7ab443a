//! Path resolution in the guest's file system.

use rustix::io::Errno;

use super::{Content, Disk, PathTail, ROOT};

/// Maximum number of symbolic links that one path may go through.
const MAX_LINKS: u32 = 40;

const MAX_PATH: usize = 4096;

impl Disk {
    /// Resolves all components of a path except the last one. Relative paths start at `from`.
    pub(in crate::backend::kvm_process) fn resolve_parent<'a>(
        &self,
        from: u64,
        path: &'a [u8],
    ) -> Result<PathTail<'a>, Errno> {
        let from = self.start(from, path)?;
        let end = path.iter().rposition(|it| *it != b'/').map_or(0, |it| it + 1);
        let trimmed = &path[..end];
        let cut = trimmed.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
        let (before, name) = trimmed.split_at(cut);
        let dir = self.walk(from, before, &mut 0)?;
        self.dir(dir)?;
        // The path of the root directory has no last component, so use `.`, which denotes the root directory itself.
        Ok(PathTail { dir, name: if name.is_empty() { b"." } else { name } })
    }

    /// Resolves a path. A symbolic link at its end is followed.
    pub(in crate::backend::kvm_process) fn resolve(
        &self,
        from: u64,
        path: &[u8],
    ) -> Result<u64, Errno> {
        let start = self.start(from, path)?;
        self.walk(start, path, &mut 0)
    }

    /// Resolves a path. A symbolic link at its end is not followed, unless the path ends with a slash.
    pub(in crate::backend::kvm_process) fn resolve_no_follow(
        &self,
        from: u64,
        path: &[u8],
    ) -> Result<u64, Errno> {
        match path.last() {
            Some(b'/') => self.resolve(from, path),
            _ => self.lookup(self.resolve_parent(from, path)?),
        }
    }

    /// Returns the node of the entry with this name in a directory.
    pub(in crate::backend::kvm_process) fn lookup(&self, tail: PathTail<'_>) -> Result<u64, Errno> {
        let dir = self.dir(tail.dir)?;
        match tail.name {
            b"." => Ok(tail.dir),
            b".." => Ok(dir.parent),
            name => {
                let number = dir.names.get(name).ok_or(Errno::NOENT)?;
                dir.entries.get(number).map(|it| it.1).ok_or(Errno::NOENT)
            }
        }
    }

    /// Returns the absolute path of a directory. Fails if the directory is more than `depth` levels deep.
    pub(in crate::backend::kvm_process) fn path_of(
        &self,
        dir: u64,
        depth: usize,
    ) -> Result<Vec<u8>, Errno> {
        let mut names = Vec::new();
        let mut at = dir;
        while at != ROOT {
            let parent = self.dir(at)?.parent;
            let entries = &self.dir(parent)?.entries;
            let (name, _) = entries.values().find(|it| it.1 == at).ok_or(Errno::NOENT)?;
            names.push(name.clone());
            if names.len() > depth {
                return Err(Errno::NAMETOOLONG);
            }
            at = parent;
        }
        let path: Vec<u8> = names.iter().rev().flat_map(|it| [b"/", &**it].concat()).collect();
        Ok(if path.is_empty() { b"/".to_vec() } else { path })
    }

    fn start(&self, from: u64, path: &[u8]) -> Result<u64, Errno> {
        match path {
            [] => Err(Errno::NOENT),
            path if path.len() >= MAX_PATH => Err(Errno::NAMETOOLONG),
            [b'/', ..] => Ok(ROOT),
            _ => Ok(from),
        }
    }

    /// Follows a path and all symbolic links in it. `links` counts the links that have been followed.
    fn walk(&self, from: u64, path: &[u8], links: &mut u32) -> Result<u64, Errno> {
        let mut at = from;
        for name in path.split(|it| *it == b'/').filter(|it| !it.is_empty()) {
            let next = self.lookup(PathTail { dir: at, name })?;
            at = match &self.node(next)?.content {
                Content::Link(target) => {
                    *links += 1;
                    if *links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    // The limit on links also limits the depth of the recursion.
                    self.walk(self.start(at, target)?, target, links)?
                }
                _ => next,
            };
        }
        if path.last() == Some(&b'/') {
            self.dir(at)?;
        }
        Ok(at)
    }
}

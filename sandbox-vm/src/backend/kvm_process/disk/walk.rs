//! Paths, from name to name.

use rustix::io::Errno;

use super::{Content, Disk, ROOT};

/// How many links one path may lead through.
const MAX_LINKS: u32 = 40;

/// The longest path.
const MAX_PATH: usize = 4096;

/// The last name of a path, and the folder that it is looked for in.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::kvm_process) struct Last<'a> {
    pub(in crate::backend::kvm_process) folder: u64,
    pub(in crate::backend::kvm_process) name: &'a [u8],
}

impl Disk {
    /// The folder of the last name of a path, which starts at this folder unless it starts at the root.
    pub(in crate::backend::kvm_process) fn last<'a>(
        &self,
        from: u64,
        path: &'a [u8],
    ) -> Result<Last<'a>, Errno> {
        let from = self.start(from, path)?;
        let trimmed = path.trim_suffix_slashes();
        let cut = trimmed.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
        let (before, name) = trimmed.split_at(cut);
        let folder = self.walk(from, before, &mut 0)?;
        self.folder(folder)?;
        // The root has no name of its own.
        Ok(Last { folder, name: if name.is_empty() { b"." } else { name } })
    }

    /// What a path leads to; a link at its end is followed.
    pub(in crate::backend::kvm_process) fn follow(
        &self,
        from: u64,
        path: &[u8],
    ) -> Result<u64, Errno> {
        let start = self.start(from, path)?;
        self.walk(start, path, &mut 0)
    }

    /// What a path leads to; a link at its end is not followed, unless the path says that it is a folder.
    pub(in crate::backend::kvm_process) fn find(
        &self,
        from: u64,
        path: &[u8],
    ) -> Result<u64, Errno> {
        match path.last() {
            Some(b'/') => self.follow(from, path),
            _ => self.entry(self.last(from, path)?),
        }
    }

    /// What a folder has under this name.
    pub(in crate::backend::kvm_process) fn entry(&self, last: Last<'_>) -> Result<u64, Errno> {
        let folder = self.folder(last.folder)?;
        match last.name {
            b"." => Ok(last.folder),
            b".." => Ok(folder.parent),
            name => {
                let number = folder.names.get(name).ok_or(Errno::NOENT)?;
                folder.entries.get(number).map(|it| it.1).ok_or(Errno::NOENT)
            }
        }
    }

    /// The path of a folder, from the root, if it is no deeper than this.
    pub(in crate::backend::kvm_process) fn path(
        &self,
        folder: u64,
        depth: usize,
    ) -> Result<Vec<u8>, Errno> {
        let mut names = Vec::new();
        let mut at = folder;
        while at != ROOT {
            let parent = self.folder(at)?.parent;
            let entries = &self.folder(parent)?.entries;
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

    /// Walks a path, following all links; `links` counts them.
    fn walk(&self, from: u64, path: &[u8], links: &mut u32) -> Result<u64, Errno> {
        let mut at = from;
        for name in path.split(|it| *it == b'/').filter(|it| !it.is_empty()) {
            let next = self.entry(Last { folder: at, name })?;
            at = match &self.node(next)?.content {
                Content::Link(target) => {
                    *links += 1;
                    if *links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    // No deeper than there may be links.
                    self.walk(self.start(at, target)?, target, links)?
                }
                _ => next,
            };
        }
        if path.last() == Some(&b'/') {
            self.folder(at)?;
        }
        Ok(at)
    }
}

trait Slashes {
    fn trim_suffix_slashes(&self) -> &Self;
}

impl Slashes for [u8] {
    fn trim_suffix_slashes(&self) -> &Self {
        let end = self.iter().rposition(|it| *it != b'/').map_or(0, |it| it + 1);
        &self[..end]
    }
}

//! Registry of all state directories in which this user has sandbox directories. With it, any program of this user that
//! uses sandboxes finds the leftovers of a crash when it starts, even in other state directories.
//!
//! The registry is a directory of symbolic links in the default state directory. The link to a state directory is
//! created before the first sandbox directory in it, and removed when the state directory contains no sandbox directory
//! any more.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::state_dir::{
    check_private_dir, create_private_dir, default_state_dir, has_sandbox_dir_name,
};

const LOCK_FILE: &str = "lock";

#[derive(Clone, Debug)]
pub(super) struct Registry {
    /// Default state directory, which contains the registry and needs no entry in it.
    default_dir: PathBuf,
}

impl Registry {
    pub(super) fn in_default_dir() -> Self {
        Self::beside(default_state_dir())
    }

    pub(super) fn beside(default_dir: PathBuf) -> Self {
        Self { default_dir }
    }

    /// Registers a state directory and then calls `create`, which creates a directory in it. The registry is locked
    /// meanwhile, so that no other process can find the state directory empty in between and remove its entry.
    pub(super) fn register(
        &self,
        state: &Path,
        create: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if state == self.default_dir {
            return create();
        }
        // The lock is held until `create` has returned.
        let _lock = self.add_entry(state).inspect_err(|error| {
            tracing::warn!(
                dir = %state.display(), registry = %self.dir().display(), %error,
                "cannot register this state directory; after a crash, only a start that uses it again removes its leftovers"
            );
        });
        create()
    }

    /// Returns the registered state directories.
    pub(super) fn state_dirs(&self) -> Vec<PathBuf> {
        self.entries().into_iter().map(|(_, state)| state).collect()
    }

    /// Removes the entries of state directories without sandbox directories.
    pub(super) fn remove_empty_entries(&self) {
        if self.entries().is_empty() {
            return;
        }
        let Ok(_lock) = self.lock() else { return };
        for (entry, state) in self.entries() {
            if is_empty(&state) {
                let _ = fs::remove_file(entry);
            }
        }
    }

    fn add_entry(&self, state: &Path) -> io::Result<File> {
        let lock = self.lock()?;
        let state = state.canonicalize()?;
        let digest = Sha256::digest(state.as_os_str().as_encoded_bytes());
        let name = hex::encode(&digest[..16]);
        match symlink(state, self.dir().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(lock),
        }
    }

    /// Returns the links and their targets, or nothing if another user could have created links.
    fn entries(&self) -> Vec<(PathBuf, PathBuf)> {
        if check_private_dir(&self.default_dir)
            .and_then(|()| check_private_dir(&self.dir()))
            .is_err()
        {
            return Vec::new();
        }
        let entries = fs::read_dir(self.dir()).into_iter().flatten().flatten();
        let links = entries.filter_map(|it| Some((it.path(), fs::read_link(it.path()).ok()?)));
        links.collect()
    }

    fn lock(&self) -> io::Result<File> {
        create_private_dir(&self.default_dir)?;
        create_private_dir(&self.dir())?;
        let lock = File::create(self.dir().join(LOCK_FILE))?;
        lock.lock()?;
        Ok(lock)
    }

    fn dir(&self) -> PathBuf {
        self.default_dir.join("states")
    }
}

/// Returns whether a state directory contains no sandbox directories. A state directory that cannot be read may contain
/// some, so it does not count as empty.
fn is_empty(state: &Path) -> bool {
    match fs::read_dir(state) {
        Ok(entries) => !entries.flatten().any(|it| has_sandbox_dir_name(&it.path())),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

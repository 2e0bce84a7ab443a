//! The registry: which folders this user has berths in, so that any later start finds what a crash has left there.
//!
//! It is a folder of links beside the usual berths. An entry is made before the first berth, and removed once there are
//! none.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{check_private, default_state_folder, is_berth, make_private};

const LOCK: &str = "lock";

#[derive(Clone, Debug)]
pub(super) struct Registry {
    /// Where the usual berths are: they need no entry.
    usual: PathBuf,
}

impl Registry {
    pub(super) fn usual() -> Self {
        Self::of(default_state_folder())
    }

    pub(super) fn of(usual: PathBuf) -> Self {
        Self { usual }
    }

    /// Notes a folder, and makes something in it before anybody can find it empty.
    pub(super) fn note(
        &self,
        state: &Path,
        make: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if state == self.usual {
            return make();
        }
        // Held until the thing is made.
        let _lock = self.enter(state).inspect_err(|error| {
            tracing::warn!(
                folder = %state.display(), registry = %self.folder().display(), %error,
                "what a crash leaves in this folder is found only by a start with the same folder"
            );
        });
        make()
    }

    /// The folders that are noted.
    pub(super) fn states(&self) -> Vec<PathBuf> {
        self.entries().into_iter().map(|(_, state)| state).collect()
    }

    /// Forgets folders that have no berths.
    pub(super) fn forget_empty(&self) {
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

    fn enter(&self, state: &Path) -> io::Result<File> {
        let lock = self.lock()?;
        let state = state.canonicalize()?;
        let digest = Sha256::digest(state.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|it| format!("{it:02x}")).collect();
        match symlink(state, self.folder().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(lock),
        }
    }

    /// The links and where they point. Those that somebody else could have made are none.
    fn entries(&self) -> Vec<(PathBuf, PathBuf)> {
        if check_private(&self.usual).and_then(|()| check_private(&self.folder())).is_err() {
            return Vec::new();
        }
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let links = entries.filter_map(|it| Some((it.path(), fs::read_link(it.path()).ok()?)));
        links.collect()
    }

    fn lock(&self) -> io::Result<File> {
        make_private(&self.usual)?;
        make_private(&self.folder())?;
        let lock = File::create(self.folder().join(LOCK))?;
        lock.lock()?;
        Ok(lock)
    }

    fn folder(&self) -> PathBuf {
        self.usual.join("states")
    }
}

/// Whether a folder has no berths; one that cannot be looked at may have some.
fn is_empty(state: &Path) -> bool {
    match fs::read_dir(state) {
        Ok(entries) => !entries.flatten().any(|it| is_berth(&it.path())),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

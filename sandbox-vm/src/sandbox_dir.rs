//! Sandbox directories. The host keeps one directory for each sandbox. It contains a list of *leftovers*. A leftover is
//! anything that would outlive a crash of the host process, for example a process or a control group.
//!
//! The process that owns a sandbox directory holds a lock on a file in it. The kernel releases the lock when the
//! process ends. A sandbox directory that is not locked is therefore orphaned, and the next start of a program that
//! uses sandboxes removes the leftovers on its list. If the owner itself cannot remove everything, it leaves the
//! directory behind as an orphan.

mod leftover;
mod reaper;
mod registry;
mod state_dir;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, DirBuilder, File},
    io::{Seek, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use graph_core::checkpoint::CheckpointId;

use self::{
    reaper::RemovalTimeouts,
    registry::Registry,
    state_dir::{INCOMPLETE_PREFIX, LEFTOVERS_FILE, LOCK_FILE},
};
use crate::{Error, cgroup::Cgroup, limits::Limits, sync::lock};

#[cfg(feature = "docker")]
pub(crate) use self::state_dir::CONTAINER_PREFIX;
pub use self::{leftover::Leftover, reaper::remove_orphans};
pub(crate) use self::{
    reaper::{remove_all_orphans, wait_for_exit},
    state_dir::{check_private_dir, create_private_dir, default_state_dir},
};

/// The directory of one sandbox. Dropping it removes the directory and every leftover on its list that still exists.
#[derive(Debug)]
pub struct SandboxDir {
    id: String,
    path: PathBuf,
    lock: Option<File>,
    leftovers: Arc<LeftoverList>,
}

/// The leftovers recorded in a sandbox directory.
#[derive(Debug)]
pub(crate) struct LeftoverList {
    // A std mutex suffices, because it is held only while a line is written and never across an await.
    state: Mutex<ListState>,
}

#[derive(Debug)]
struct ListState {
    file: File,
    /// Leftovers that may still exist.
    remaining: Vec<Leftover>,
}

impl SandboxDir {
    /// Creates a sandbox directory in the state directory `state`. `id` has to end with an id from
    /// [`CheckpointId::next`], because the reaper ignores directories with other names.
    pub fn create(state: &Path, id: &str) -> Result<Self, Error> {
        Self::create_registered(&Registry::in_default_dir(), state, id)
    }

    fn create_registered(registry: &Registry, state: &Path, id: &str) -> Result<Self, Error> {
        let create = || {
            create_private_dir(state)?;
            let incomplete = state.join(format!("{INCOMPLETE_PREFIX}{id}"));
            registry.register(state, || DirBuilder::new().mode(0o700).create(&incomplete))?;
            let populate = || {
                let lock = File::create(incomplete.join(LOCK_FILE))?;
                lock.lock()?;
                let file = File::create(incomplete.join(LEFTOVERS_FILE))?;
                fs::rename(&incomplete, state.join(id))?;
                Ok((lock, file))
            };
            populate().inspect_err(|_| drop(fs::remove_dir_all(&incomplete)))
        };
        let what =
            format!("cannot create the directory of sandbox `{id}` in `{}`", state.display());
        let (lock, file) = create().map_err(Error::io(what))?;
        let list = Mutex::new(ListState { file, remaining: Vec::new() });
        let (path, leftovers) = (state.join(id), Arc::new(LeftoverList { state: list }));
        Ok(Self { id: id.to_owned(), path, lock: Some(lock), leftovers })
    }

    /// Creates a sandbox directory in the default state directory. Used for the guest that is started to probe a back
    /// end.
    pub(crate) fn create_for_probe(name: &str) -> Result<Self, Error> {
        // The id has to be unique, because several probes may run concurrently.
        let id = format!("{name}-{}", CheckpointId::next());
        Self::create(&default_state_dir(), &id)
    }

    /// Returns the id of the sandbox. Unlike its name, it is never reused.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the directory. The back end may store files in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds leftovers to the list. If possible, call this before the leftovers are created.
    pub fn record_leftovers(
        &self,
        leftovers: impl IntoIterator<Item = Leftover>,
    ) -> Result<(), Error> {
        leftovers.into_iter().try_for_each(|it| self.leftovers.record(it))
    }

    /// Creates a control group for the guest. It is recorded as a leftover before it is created. Returns `None` if this
    /// machine does not let this process create control groups.
    pub(crate) fn create_cgroup(&self, limits: &Limits) -> Result<Option<Cgroup>, Error> {
        self.record_leftovers(Cgroup::candidate_dirs(&self.id).into_iter().map(Leftover::Cgroup))?;
        let cgroup = Cgroup::create(&self.id, limits);
        // A scope does not exist before its first process is started.
        if let Some(scope) = cgroup.as_ref().filter(|it| it.scope().is_some()) {
            self.record_leftovers(scope.dirs().into_iter().map(Leftover::Cgroup))?;
        }
        Ok(cgroup)
    }

    /// Returns the list of leftovers, for callers that add or remove entries later.
    pub(crate) fn leftovers(&self) -> Arc<LeftoverList> {
        self.leftovers.clone()
    }
}

impl LeftoverList {
    pub(crate) fn record(&self, leftover: Leftover) -> Result<(), Error> {
        let failed = |error| Error::io("cannot write the list of leftovers")(error);
        let mut line = serde_json::to_string(&leftover).map_err(|error| failed(error.into()))?;
        line.push('\n');
        let mut list = self.lock();
        list.file.write_all(line.as_bytes()).map_err(failed)?;
        list.remaining.push(leftover);
        Ok(())
    }

    /// Removes a leftover from the list, because it no longer exists.
    pub(crate) fn mark_removed(&self, leftover: &Leftover) {
        let mut list = self.lock();
        list.remaining.retain(|it| it != leftover);
        if list.remaining.is_empty() {
            // None of the leftovers in the file exists any more. Truncate the file, so that it does not keep growing
            // with every leftover that is recorded.
            let _ = list.file.set_len(0).and_then(|()| list.file.rewind());
        }
    }

    fn lock(&self) -> MutexGuard<'_, ListState> {
        lock(&self.state)
    }
}

impl Drop for SandboxDir {
    fn drop(&mut self) {
        let remaining = std::mem::take(&mut self.leftovers.lock().remaining);
        let left = reaper::remove_leftovers(remaining, RemovalTimeouts::ON_DROP);
        if left.is_empty() {
            return reaper::remove_dir(&self.path);
        }
        // Use an OS thread instead of a task, because the runtime may already have shut down. If the process ends
        // before the thread has finished, the next start removes the remaining leftovers.
        let (dir, lock) = (self.path.clone(), self.lock.take());
        let finish = move || {
            match reaper::remove_leftovers(left, RemovalTimeouts::IN_BACKGROUND).as_slice() {
                [] => reaper::remove_dir(&dir),
                left => reaper::warn_incomplete_removal(&dir, left),
            }
            drop(lock);
        };
        let started = std::thread::Builder::new().name("sandbox-vm-reap".to_owned()).spawn(finish);
        if let Err(error) = started {
            tracing::warn!(dir = %self.path.display(), %error, "cannot start the clean-up thread of a sandbox; the next start removes its leftovers");
        }
    }
}

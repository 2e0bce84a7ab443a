//! Names and access rights of state directories and of the sandbox directories in them.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use graph_core::checkpoint::CheckpointId;

pub(super) const LOCK_FILE: &str = "lock";
pub(super) const LEFTOVERS_FILE: &str = "leftovers";

/// Names of the entries that a sandbox directory may contain in addition to its lock file: the list of leftovers, the
/// workspace of an in-process agent, and the snapshot of a pool.
pub(super) const KNOWN_CONTENTS: [&str; 3] = [LEFTOVERS_FILE, "workspace", "template"];

/// Prefix that the name of a sandbox directory has until its owner holds the lock. It prevents the directory from being
/// mistaken for an orphan.
pub(super) const INCOMPLETE_PREFIX: &str = ".new-";

/// Prefix of the name of every container that this crate creates. Containers with other names are never removed.
pub(crate) const CONTAINER_PREFIX: &str = "sandbox-vm-";

/// Returns the default state directory. If the environment variable `SANDBOX_VM_STATE` is set, this is its value.
/// Otherwise it is `/run/sandbox-vm` for the root user. For other users, it is `sandbox-vm` in `$XDG_RUNTIME_DIR` if
/// that variable is set. If it is not set, the directory is in the temporary directory, and its name contains the
/// user's id.
pub(crate) fn default_state_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("SANDBOX_VM_STATE").filter(|it| !it.is_empty()) {
        return PathBuf::from(dir);
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/sandbox-vm");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("sandbox-vm"),
        None => std::env::temp_dir().join(format!("sandbox-vm-{}", user.as_raw())),
    }
}

/// Creates a directory that other users cannot write to, because this process acts on the files in it. A new directory
/// is not accessible to other users at all. Fails if the directory already exists and other users can write to it.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_private_dir(dir)
}

/// Rejects a directory in which another user could have placed files.
pub(crate) fn check_private_dir(dir: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(dir)?;
    if !metadata.is_dir()
        || metadata.uid() != rustix::process::geteuid().as_raw()
        || metadata.mode() & 0o022 != 0
    {
        let problem =
            "it must be a directory that belongs to this user and that nobody else can write to";
        return Err(io::Error::other(problem));
    }
    Ok(())
}

/// Returns whether the name of a directory is that of a sandbox directory, which ends with a checkpoint id.
pub(super) fn has_sandbox_dir_name(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    id.parse::<CheckpointId>().is_ok()
}

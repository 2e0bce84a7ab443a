//! The root of a jail: a small read-only tree that contains the image and nothing else of the host.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use rustix::{
    fs::CWD,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
        mount_change, mount_remount, move_mount, open_tree, unmount,
    },
};

use super::{InitPlan, StageError};
use crate::{
    backend::{confine, seccomp::MemoryEnforcement},
    guest::WORKSPACE,
    spec::Image,
    sys,
};

/// Where the new root is assembled. Any directory works: only this process sees the mount.
const STAGING_DIR: &str = "/tmp";

/// Devices that are harmless.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Directories of the host with its programs and libraries.
const SYSTEM_DIRS: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Builds the root and switches to it.
pub(super) fn build(plan: &InitPlan) -> Result<(), StageError> {
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StageError::new("make its mounts private"))?;
    // Clone these before a mount covers them.
    let mut entries = collect_entries(plan).map_err(step("find its image"))?;
    entries.extend(shared_dirs(&plan.shared_dirs)?);
    let base = Path::new(STAGING_DIR);
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("root", base, "tmpfs", safe, c"mode=0755,size=1m,nr_inodes=256")
        .map_err(StageError::new("mount its root"))?;
    confine::mount_workspace(base, &plan.bounds).map_err(step("mount the workspace"))?;
    fs::create_dir(base.join("dev")).map_err(step("create /dev"))?;
    mount_entries(base, entries).map_err(step("mount its image"))?;
    confine::populate_root(base).map_err(step("populate its root"))?;
    mount_proc(base).map_err(step("mount /proc"))?;
    enter(base).map_err(step("switch to its root"))
}

/// Collects everything that the tree of a jail contains.
fn collect_entries(plan: &InitPlan) -> io::Result<Vec<RootEntry>> {
    // If the user `nobody` cannot reach the agent's file, the guest does without it: the agent is already running.
    let mut entries: Vec<_> = agent_entry().into_iter().collect();
    for device in DEVICES {
        // Mapping it would create shared memory.
        if device == "zero" && plan.bounds.memory_enforcement() == MemoryEnforcement::Agent {
            continue;
        }
        let path = format!("/dev/{device}");
        entries.push(clone_mount(Path::new(&path), &path)?);
    }
    entries.extend(image_entries(&plan.image)?);
    Ok(entries)
}

/// A clone of a mount of the host, detached from its tree.
pub(in crate::backend) struct ClonedMount {
    tree: OwnedFd,
    to: PathBuf,
    is_dir: bool,
    /// Whether it is already read-only and needs no remount after it is attached.
    is_restricted: bool,
}

/// An entry in a guest's root.
pub(in crate::backend) enum RootEntry {
    Tree(ClonedMount),
    /// On most systems `/bin` is a link into `/usr`.
    Link {
        to: PathBuf,
        at: PathBuf,
    },
}

/// The current program, which is the guest's agent.
pub(in crate::backend) fn agent_entry() -> io::Result<RootEntry> {
    // By path, because the open file belongs to a mount of another namespace, which the kernel does not clone.
    clone_mount(&fs::read_link("/proc/self/exe")?, "/agent")
}

/// What an image contains besides the agent.
pub(in crate::backend) fn image_entries(image: &Image) -> io::Result<Vec<RootEntry>> {
    match image {
        Image::Python => host_dirs(&SYSTEM_DIRS),
        Image::Base | Image::Named(_) => Ok(Vec::new()),
    }
}

/// The host directories that are shared with the guest, by their names in its root.
pub(in crate::backend) fn shared_dirs(
    dirs: &BTreeMap<String, PathBuf>,
) -> Result<Vec<RootEntry>, StageError> {
    let clone_shared =
        |(name, from): (&String, &PathBuf)| clone_mount(from, Path::new("/").join(name));
    dirs.iter().map(clone_shared).collect::<io::Result<_>>().map_err(StageError::new(
        "share a host directory with the guest; every user must be able to reach it",
    ))
}

/// The given host directories that exist, at the same paths in the guest.
pub(in crate::backend) fn host_dirs(dirs: &[&str]) -> io::Result<Vec<RootEntry>> {
    let mut entries = Vec::new();
    for dir in dirs {
        match fs::symlink_metadata(dir) {
            Ok(it) if it.is_symlink() => {
                entries.push(RootEntry::Link { to: fs::read_link(dir)?, at: dir.into() });
            }
            Ok(_) => entries.push(clone_mount(Path::new(dir), dir)?),
            Err(_) => {}
        }
    }
    Ok(entries)
}

/// Clones the mount of a file or directory of the host, read-only, or of a device.
pub(in crate::backend) fn clone_mount(
    from: &Path,
    to: impl Into<PathBuf>,
) -> io::Result<RootEntry> {
    let (to, is_dir) = (to.into(), from.is_dir());
    let recursive = open_clone(from, OpenTreeFlags::AT_RECURSIVE)?;
    // Devices have to be writable, and `nodev` would disable them.
    let restricted =
        if to.starts_with("/dev") { Ok(()) } else { sys::restrict_mount_tree(&recursive) };
    let (tree, is_restricted) = match restricted {
        Ok(()) => (recursive, true),
        // An old kernel can restrict only one mount at a time. So mounts below this one are left out; if the kernel
        // does not allow that, the call fails.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            (open_clone(from, OpenTreeFlags::empty())?, false)
        }
        Err(error) => return Err(with_path(from, &error)),
    };
    Ok(RootEntry::Tree(ClonedMount { tree, to, is_dir, is_restricted }))
}

fn open_clone(from: &Path, flags: OpenTreeFlags) -> io::Result<OwnedFd> {
    let flags = flags | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, from, flags).map_err(|error| with_path(from, &error))
}

fn with_path(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Attaches the entries below `base`.
pub(in crate::backend) fn mount_entries(base: &Path, entries: Vec<RootEntry>) -> io::Result<()> {
    for entry in entries {
        match entry {
            RootEntry::Link { to, at } => symlink(to, confine::path_in_root(base, &at))?,
            RootEntry::Tree(ClonedMount { tree, to, is_dir, is_restricted }) => {
                let at = confine::path_in_root(base, &to);
                if is_dir {
                    fs::create_dir_all(&at)?
                } else {
                    fs::write(&at, "")?
                }
                move_mount(&tree, "", CWD, &at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
                if !is_restricted {
                    let read_only = MountFlags::BIND
                        | MountFlags::RDONLY
                        | MountFlags::NOSUID
                        | MountFlags::NODEV;
                    mount_remount(&at, read_only, "")?;
                }
            }
        }
    }
    Ok(())
}

/// Mounts a `/proc` with only the guest's own processes, without kernel settings.
///
/// In a container that hides parts of its own `/proc` the kernel may refuse; the guest then does without.
fn mount_proc(base: &Path) -> io::Result<()> {
    let at = base.join("proc");
    fs::create_dir(&at)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount("proc", &at, "proc", flags, c"subset=pid");
    Ok(())
}

fn enter(base: &Path) -> io::Result<()> {
    pivot_into(base)?;
    std::env::set_current_dir(WORKSPACE)
}

/// Makes a directory the read-only root. Nothing of the old root stays reachable.
pub(in crate::backend) fn pivot_into(base: &Path) -> io::Result<()> {
    std::env::set_current_dir(base)?;
    // This stacks the old root on top of the new one, where it is then unmounted.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount("/", read_only, "")?)
}

//! The root directory of a jail. It is a small read-only tree that contains only the image, a few devices, and the host
//! directories that are shared with the guest.

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

use crate::{
    backend::{
        confine,
        plan::{JailPlan, MemoryEnforcement},
        stage_error::StageError,
    },
    spec::{Image, WORKSPACE},
    sys,
};

/// Directory in which the new root is assembled. Any directory works, because only this process sees what is mounted
/// there.
const STAGING_DIR: &str = "/tmp";

/// Harmless devices in `/dev` that guests can use.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Host directories that contain the programs and libraries of the operating system. `/usr/local` is not among them,
/// because it contains what the host's administrator has added.
const SYSTEM_DIRS: [&str; 10] = [
    "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/share", "/bin",
    "/sbin", "/lib", "/lib64",
];

/// Builds the root directory and switches this process to it.
pub(super) fn build(plan: &JailPlan) -> Result<(), StageError> {
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StageError::new("make its mounts private"))?;
    // Clone the host's mounts now, because the mount on the staging directory may cover some of them.
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

/// Collects the entries of a jail's root directory, except for the shared directories.
fn collect_entries(plan: &JailPlan) -> io::Result<Vec<RootEntry>> {
    // If the user `nobody` cannot reach the agent's file, leave the file out of the guest's root, because the agent is
    // already running.
    let mut entries: Vec<_> = agent_entry().into_iter().collect();
    for device in DEVICES {
        // Mapping `/dev/zero` would create shared memory, which the agent cannot measure.
        if device == "zero" && plan.bounds.memory_enforcement() == MemoryEnforcement::Agent {
            continue;
        }
        let path = format!("/dev/{device}");
        entries.push(clone_mount(Path::new(&path), &path)?);
    }
    entries.extend(image_entries(&plan.image)?);
    Ok(entries)
}

/// A cloned host mount that has not been attached to a directory yet.
pub(in crate::backend) struct ClonedMount {
    tree: OwnedFd,
    to: PathBuf,
    is_dir: bool,
    /// Whether the mount already has its final restrictions and needs no remount after it is attached.
    is_restricted: bool,
}

pub(in crate::backend) enum RootEntry {
    Tree(ClonedMount),
    /// A symbolic link. On most systems, `/bin` is a link into `/usr`.
    Link {
        to: PathBuf,
        at: PathBuf,
    },
}

/// Returns the entry for the current program, which is the guest's agent.
pub(in crate::backend) fn agent_entry() -> io::Result<RootEntry> {
    // Clone it by its path, because `/proc/self/exe` refers to a mount in another namespace, and the kernel does not
    // clone such mounts.
    clone_mount(&fs::read_link("/proc/self/exe")?, "/agent")
}

/// Returns the entries for an image, except for the agent.
pub(in crate::backend) fn image_entries(image: &Image) -> io::Result<Vec<RootEntry>> {
    match image {
        Image::Python => host_dirs(&SYSTEM_DIRS),
        Image::Base | Image::Named(_) => Ok(Vec::new()),
    }
}

/// Returns the entries for the host directories that are shared with the guest. Each key is a directory's name in the
/// guest's root directory.
pub(in crate::backend) fn shared_dirs(
    dirs: &BTreeMap<String, PathBuf>,
) -> Result<Vec<RootEntry>, StageError> {
    let clone_shared =
        |(name, from): (&String, &PathBuf)| clone_mount(from, Path::new("/").join(name));
    dirs.iter().map(clone_shared).collect::<io::Result<_>>().map_err(StageError::new(
        "share a host directory with the guest; every user must be able to reach it",
    ))
}

/// Returns entries that place host directories at the same paths in the guest. Directories that do not exist are
/// skipped.
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

/// Clones the mount of a host file, directory or device. The clone is read-only, except for a device.
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
        // An old kernel can restrict only one mount at a time, so the clone leaves out the mounts below this one. If
        // the kernel refuses such a clone, this function fails.
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

/// Mounts a `/proc` that shows only the guest's own processes and no kernel settings.
///
/// If the host itself runs in a container that hides parts of `/proc`, the kernel may refuse this mount. The guest then
/// has an empty `/proc`.
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

/// Makes `base` the read-only root directory of this process. Nothing in the old root remains reachable.
pub(in crate::backend) fn pivot_into(base: &Path) -> io::Result<()> {
    std::env::set_current_dir(base)?;
    // This call stacks the old root on top of the new one. The next call unmounts the old root.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount("/", read_only, "")?)
}

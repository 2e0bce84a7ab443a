//! The root of a jail: a small read-only tree that holds the image and nothing else of the host.

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

/// Where the new root is put together. Any folder does: the mount is seen by this process alone.
const STAGING_DIR: &str = "/tmp";

/// Devices without any power.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Folders of the host that hold its programs and libraries.
const SYSTEM_DIRS: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Builds the root and moves into it.
pub(super) fn build(plan: &InitPlan) -> Result<(), StageError> {
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StageError::new("keep its mounts to itself"))?;
    // Taken before anything covers them.
    let mut entries = collect_entries(plan).map_err(step("find its image"))?;
    entries.extend(shared_dirs(&plan.shared_dirs)?);
    let base = Path::new(STAGING_DIR);
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("root", base, "tmpfs", safe, c"mode=0755,size=1m,nr_inodes=256")
        .map_err(StageError::new("make a root"))?;
    confine::mount_workspace(base, &plan.bounds).map_err(step("make the workspace"))?;
    fs::create_dir(base.join("dev")).map_err(step("place its devices"))?;
    mount_entries(base, entries).map_err(step("place its image"))?;
    confine::populate_root(base).map_err(step("furnish its root"))?;
    mount_proc(base).map_err(step("show its processes"))?;
    enter(base).map_err(step("move into its root"))
}

/// The whole tree of a jail.
fn collect_entries(plan: &InitPlan) -> io::Result<Vec<RootEntry>> {
    // Where the way to the agent is closed to nobody the guest lives without: it runs already.
    let mut entries: Vec<_> = agent_entry().into_iter().collect();
    for device in DEVICES {
        // Whoever maps this one has shared memory.
        if device == "zero" && plan.bounds.memory_enforcement() == MemoryEnforcement::Agent {
            continue;
        }
        let path = format!("/dev/{device}");
        entries.push(clone_mount(Path::new(&path), &path)?);
    }
    entries.extend(image_entries(&plan.image)?);
    Ok(entries)
}

/// A entry of the host's tree, taken out of it.
pub(in crate::backend) struct ClonedMount {
    tree: OwnedFd,
    to: PathBuf,
    is_dir: bool,
    /// Whether it needs no more to be done to it once it is in its place.
    is_restricted: bool,
}

/// A entry of a guest's root.
pub(in crate::backend) enum RootEntry {
    Tree(ClonedMount),
    /// On most systems `/bin` is a link into `/usr`.
    Link {
        to: PathBuf,
        at: PathBuf,
    },
}

/// This program, which is the guest's agent.
pub(in crate::backend) fn agent_entry() -> io::Result<RootEntry> {
    // By its path, since the kernel clones no mount of another namespace, which the open file belongs to.
    clone_mount(&fs::read_link("/proc/self/exe")?, "/agent")
}

/// What an image has besides the agent.
pub(in crate::backend) fn image_entries(image: &Image) -> io::Result<Vec<RootEntry>> {
    match image {
        Image::Python => host_dirs(&SYSTEM_DIRS),
        Image::Base | Image::Named(_) => Ok(Vec::new()),
    }
}

/// Folders of the host that the guest is shown, by their names at its root.
pub(in crate::backend) fn shared_dirs(
    dirs: &BTreeMap<String, PathBuf>,
) -> Result<Vec<RootEntry>, StageError> {
    let clone_shared =
        |(name, from): (&String, &PathBuf)| clone_mount(from, Path::new("/").join(name));
    dirs.iter().map(clone_shared).collect::<io::Result<_>>().map_err(StageError::new(
        "show its guest a folder of the host; every user has to be able to reach it",
    ))
}

/// Folders of the host that are there, at the same place in the guest.
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

/// Takes a file or a folder of the host out of its tree, to be read only, or a device.
pub(in crate::backend) fn clone_mount(
    from: &Path,
    to: impl Into<PathBuf>,
) -> io::Result<RootEntry> {
    let (to, is_dir) = (to.into(), from.is_dir());
    let whole = open_clone(from, OpenTreeFlags::AT_RECURSIVE)?;
    // A device has to be written to, and `nodev` would make it useless.
    let done = if to.starts_with("/dev") { Ok(()) } else { sys::restrict_mount_tree(&whole) };
    let (tree, is_restricted) = match done {
        Ok(()) => (whole, true),
        // An old kernel can do this only to one mount at a time. So what is mounted in it is left out, or refused where
        // the kernel does not allow that.
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

/// Puts the entries below a folder.
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

/// A `/proc` of the guest's own processes; nothing of the kernel's settings is in it.
///
/// In a container that hides parts of its own `/proc` the kernel may refuse; the guest then lives without.
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

/// Makes a folder the root, and read-only; nothing of the old one is left.
pub(in crate::backend) fn pivot_into(base: &Path) -> io::Result<()> {
    std::env::set_current_dir(base)?;
    // Puts the old root on top of the new one, from where it is taken away.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount("/", read_only, "")?)
}

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

use super::{JailError, Plan};
use crate::{
    backend::{calls::Memory, confine},
    guest::WORKSPACE,
    spec::Image,
    sys,
};

/// Where the new root is put together. Any folder does: the mount is seen by this process alone.
const BASE: &str = "/tmp";

/// Devices without any power.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Folders of the host that hold its programs and libraries.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Builds the root and moves into it.
pub(super) fn build(plan: &Plan) -> Result<(), JailError> {
    let step = |what: &'static str| JailError::new::<io::Error>(what);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(JailError::new("keep its mounts to itself"))?;
    // Taken before anything covers them.
    let mut pieces = pieces(plan).map_err(step("find its image"))?;
    pieces.extend(shown(&plan.folders)?);
    let base = Path::new(BASE);
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("root", base, "tmpfs", safe, c"mode=0755,size=1m,nr_inodes=256")
        .map_err(JailError::new("make a root"))?;
    confine::workspace(base, &plan.bounds).map_err(step("make the workspace"))?;
    fs::create_dir(base.join("dev")).map_err(step("place its devices"))?;
    place(base, pieces).map_err(step("place its image"))?;
    confine::furnish(base).map_err(step("furnish its root"))?;
    processes(base).map_err(step("show its processes"))?;
    enter(base).map_err(step("move into its root"))
}

/// The whole tree of a jail.
fn pieces(plan: &Plan) -> io::Result<Vec<Piece>> {
    // Where the way to the agent is closed to nobody the guest lives without: it runs already.
    let mut pieces: Vec<_> = agent().into_iter().collect();
    for device in DEVICES {
        // Whoever maps this one has shared memory.
        if device == "zero" && plan.bounds.memory() == Memory::Unbounded {
            continue;
        }
        let path = format!("/dev/{device}");
        pieces.push(take(Path::new(&path), &path)?);
    }
    pieces.extend(image(&plan.image)?);
    Ok(pieces)
}

/// A piece of the host's tree, taken out of it.
pub(in crate::backend) struct Source {
    tree: OwnedFd,
    to: PathBuf,
    is_folder: bool,
    /// Whether it needs no more to be done to it once it is in its place.
    is_harmless: bool,
}

/// A piece of a guest's root.
pub(in crate::backend) enum Piece {
    Tree(Source),
    /// On most systems `/bin` is a link into `/usr`.
    Link {
        to: PathBuf,
        at: PathBuf,
    },
}

/// This program, which is the guest's agent.
pub(in crate::backend) fn agent() -> io::Result<Piece> {
    // By its path, since the kernel clones no mount of another namespace, which the open file belongs to.
    take(&fs::read_link("/proc/self/exe")?, "/agent")
}

/// What an image has besides the agent.
pub(in crate::backend) fn image(image: &Image) -> io::Result<Vec<Piece>> {
    match image {
        Image::Python => folders(&SYSTEM),
        Image::Base | Image::Named(_) => Ok(Vec::new()),
    }
}

/// Folders of the host that the guest is shown, by their names at its root.
pub(in crate::backend) fn shown(
    folders: &BTreeMap<String, PathBuf>,
) -> Result<Vec<Piece>, JailError> {
    let show = |(name, from): (&String, &PathBuf)| take(from, Path::new("/").join(name));
    folders.iter().map(show).collect::<io::Result<_>>().map_err(JailError::new(
        "show its guest a folder of the host; every user has to be able to reach it",
    ))
}

/// Folders of the host that are there, at the same place in the guest.
pub(in crate::backend) fn folders(folders: &[&str]) -> io::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for folder in folders {
        match fs::symlink_metadata(folder) {
            Ok(it) if it.is_symlink() => {
                pieces.push(Piece::Link { to: fs::read_link(folder)?, at: folder.into() });
            }
            Ok(_) => pieces.push(take(Path::new(folder), folder)?),
            Err(_) => {}
        }
    }
    Ok(pieces)
}

/// Takes a file or a folder of the host out of its tree, to be read only, or a device.
pub(in crate::backend) fn take(from: &Path, to: impl Into<PathBuf>) -> io::Result<Piece> {
    let (to, is_folder) = (to.into(), from.is_dir());
    let whole = tree(from, OpenTreeFlags::AT_RECURSIVE)?;
    // A device has to be written to, and `nodev` would make it useless.
    let done = if to.starts_with("/dev") { Ok(()) } else { sys::make_harmless(&whole) };
    let (tree, is_harmless) = match done {
        Ok(()) => (whole, true),
        // An old kernel can do this only to one mount at a time. So what is mounted in it is left out, or refused where
        // the kernel does not allow that.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            (tree(from, OpenTreeFlags::empty())?, false)
        }
        Err(error) => return Err(about(from, &error)),
    };
    Ok(Piece::Tree(Source { tree, to, is_folder, is_harmless }))
}

fn tree(from: &Path, flags: OpenTreeFlags) -> io::Result<OwnedFd> {
    let flags = flags | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, from, flags).map_err(|error| about(from, &error))
}

fn about(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Puts the pieces below a folder.
pub(in crate::backend) fn place(base: &Path, pieces: Vec<Piece>) -> io::Result<()> {
    for piece in pieces {
        match piece {
            Piece::Link { to, at } => symlink(to, confine::below(base, &at))?,
            Piece::Tree(Source { tree, to, is_folder, is_harmless }) => {
                let at = confine::below(base, &to);
                if is_folder {
                    fs::create_dir_all(&at)?
                } else {
                    fs::write(&at, "")?
                }
                move_mount(&tree, "", CWD, &at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
                if !is_harmless {
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
fn processes(base: &Path) -> io::Result<()> {
    let at = base.join("proc");
    fs::create_dir(&at)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount("proc", &at, "proc", flags, c"subset=pid");
    Ok(())
}

fn enter(base: &Path) -> io::Result<()> {
    move_into(base)?;
    std::env::set_current_dir(WORKSPACE)
}

/// Makes a folder the root, and read-only; nothing of the old one is left.
pub(in crate::backend) fn move_into(base: &Path) -> io::Result<()> {
    std::env::set_current_dir(base)?;
    // Puts the old root on top of the new one, from where it is taken away.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount("/", read_only, "")?)
}

//! The stage around gVisor: process 1 of the namespaces puts the guest's root together and becomes `runsc` on it.

use std::{fs, io, os::unix::process::CommandExt, path::Path, process::Command};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::Signal,
};

use super::{Inner, Plan, bundle};
use crate::{
    backend::{
        confine,
        jail::{
            JailError,
            root::{self, Piece},
        },
    },
    guest::GuestArgs,
    spec::Image,
};

/// Where gVisor's program is in its own root.
const RUNSC: &str = "/runsc";

/// Where all of it is put together. Any folder does: the mount is seen by this process alone.
const BASE: &str = "/tmp";

/// Folders of the host that hold nothing but libraries, for an agent that needs some to start.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"];

/// Builds the root of the guest and becomes `runsc`, which starts the guest on it; returns if that fails.
pub fn outer(plan: &Plan) -> Result<(), JailError> {
    let step = |what: &'static str| JailError::new::<io::Error>(what);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(JailError::new("end with its host"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(JailError::new("keep its mounts to itself"))?;
    // Taken before anything covers them.
    let mut pieces = pieces(&plan.image)?;
    pieces.extend(root::shown(&plan.folders)?);
    let own = own_pieces(plan).map_err(step("find gVisor"))?;
    let base = Path::new(BASE);
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("gvisor", base, "tmpfs", safe, c"mode=0700,size=4m,nr_inodes=512")
        .map_err(JailError::new("make a place for gVisor"))?;
    build(&base.join(bundle::ROOT), plan, pieces).map_err(step("make the guest's root"))?;
    furnish(base, own).map_err(step("make gVisor's own root"))?;
    // The processes of these namespaces, which gVisor's parts find one another by.
    mount("proc", base.join("proc"), "proc", safe | MountFlags::NOEXEC, None)
        .map_err(JailError::new("show gVisor its processes"))?;
    let inner = GuestArgs::GvisorInit(Inner { bounds: plan.bounds.clone() });
    let args = inner.to_args().map_err(step("write the guest's arguments"))?;
    let config = bundle::config(Path::new("/"), args).to_string();
    fs::write(base.join("config.json"), config).map_err(step("write gVisor's configuration"))?;
    root::move_into(base).map_err(step("move into gVisor's root"))?;
    Err(JailError::new("start gVisor")(become_runsc()))
}

/// What gVisor needs of the host besides what its guest sees.
fn own_pieces(plan: &Plan) -> io::Result<Vec<Piece>> {
    Ok(vec![root::take(&plan.runsc, RUNSC)?, root::take(Path::new("/dev/null"), "/dev/null")?])
}

/// A root for gVisor itself, so that whoever gets through it finds nothing there either.
fn furnish(base: &Path, own: Vec<Piece>) -> io::Result<()> {
    ["dev", "proc", "state", "tmp"].iter().try_for_each(|it| fs::create_dir(base.join(it)))?;
    root::place(base, own)?;
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("state", base.join("state"), "tmpfs", safe, c"mode=0700,size=4m,nr_inodes=512")?)
}

fn build(root: &Path, plan: &Plan, pieces: Vec<Piece>) -> io::Result<()> {
    fs::create_dir(root)?;
    confine::workspace(root, &plan.bounds)?;
    root::place(root, pieces)?;
    confine::name_users(root)?;
    // What gVisor mounts something on.
    ["dev", "proc", "sys"].iter().try_for_each(|it| fs::create_dir(root.join(it)))
}

fn pieces(image: &Image) -> Result<Vec<Piece>, JailError> {
    // Unlike in the jail, where it runs already, the agent is started anew.
    let agent = root::agent().map_err(JailError::new(
        "read the guest's program as nobody; put it where every user can read it",
    ))?;
    let step = |what: &'static str| JailError::new::<io::Error>(what);
    let mut pieces = root::image(image).map_err(step("find its image"))?;
    if pieces.is_empty() && needs_libraries().map_err(step("look at its own libraries"))? {
        pieces = root::folders(&LIBRARIES).map_err(step("find the libraries of its program"))?;
    }
    pieces.push(agent);
    Ok(pieces)
}

/// Whether the agent, which this process is too, was started with libraries.
fn needs_libraries() -> io::Result<bool> {
    Ok(fs::read_to_string("/proc/self/maps")?.contains(".so"))
}

/// Returns if it fails, and otherwise never.
fn become_runsc() -> io::Error {
    let mut command = Command::new(RUNSC);
    // The control group is around all of it already, and so is a network namespace with nothing in it.
    command.args(["--platform=systrap", "--network=none", "--ignore-cgroups", "--rootless"]);
    // The root is read-only and the workspace the guest's alone.
    command.args(["--overlay2=none", "--file-access-mounts=exclusive"]);
    command.args(["--root", "/state", "run", "--bundle", "/", "guest"]);
    command.env_clear().current_dir("/").exec()
}

//! The stage around gVisor: process 1 of the namespaces puts the guest's root together and becomes `runsc` on it.

use std::{fs, io, os::unix::process::CommandExt, path::Path, process::Command};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::Signal,
};

use super::{InitPlan, OuterPlan, bundle};
use crate::{
    backend::{
        confine,
        jail::{
            StageError,
            root::{self, RootEntry},
        },
    },
    guest::GuestArgs,
    spec::Image,
};

/// Where gVisor's program is in its own root.
const RUNSC: &str = "/runsc";

/// Where all of it is put together. Any folder does: the mount is seen by this process alone.
const STAGING_DIR: &str = "/tmp";

/// Folders of the host that hold nothing but libraries, for an agent that needs some to start.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"];

/// Builds the root of the guest and becomes `runsc`, which starts the guest on it; returns if that fails.
pub fn outer(plan: &OuterPlan) -> Result<(), StageError> {
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(StageError::new("end with its host"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StageError::new("keep its mounts to itself"))?;
    // Taken before anything covers them.
    let mut entries = guest_entries(&plan.image)?;
    entries.extend(root::shared_dirs(&plan.shared_dirs)?);
    let runsc = runsc_entries(plan).map_err(step("find gVisor"))?;
    let base = Path::new(STAGING_DIR);
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("gvisor", base, "tmpfs", safe, c"mode=0700,size=4m,nr_inodes=512")
        .map_err(StageError::new("make a place for gVisor"))?;
    build_guest_root(&base.join(bundle::ROOT_DIR), plan, entries)
        .map_err(step("make the guest's root"))?;
    build_runsc_root(base, runsc).map_err(step("make gVisor's own root"))?;
    // The processes of these namespaces, which gVisor's parts find one another by.
    mount("proc", base.join("proc"), "proc", safe | MountFlags::NOEXEC, None)
        .map_err(StageError::new("show gVisor its processes"))?;
    let init = GuestArgs::GvisorInit(InitPlan { bounds: plan.bounds.clone() });
    let args = init.to_args().map_err(step("write the guest's arguments"))?;
    let config = bundle::config(Path::new("/"), args).to_string();
    fs::write(base.join("config.json"), config).map_err(step("write gVisor's configuration"))?;
    root::pivot_into(base).map_err(step("move into gVisor's root"))?;
    Err(StageError::new("start gVisor")(exec_runsc()))
}

/// What gVisor needs of the host besides what its guest sees.
fn runsc_entries(plan: &OuterPlan) -> io::Result<Vec<RootEntry>> {
    Ok(vec![
        root::clone_mount(&plan.runsc, RUNSC)?,
        root::clone_mount(Path::new("/dev/null"), "/dev/null")?,
    ])
}

/// A root for gVisor itself, so that whoever gets through it finds nothing there either.
fn build_runsc_root(base: &Path, entries: Vec<RootEntry>) -> io::Result<()> {
    ["dev", "proc", "state", "tmp"].iter().try_for_each(|it| fs::create_dir(base.join(it)))?;
    root::mount_entries(base, entries)?;
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("state", base.join("state"), "tmpfs", safe, c"mode=0700,size=4m,nr_inodes=512")?)
}

fn build_guest_root(root: &Path, plan: &OuterPlan, entries: Vec<RootEntry>) -> io::Result<()> {
    fs::create_dir(root)?;
    confine::mount_workspace(root, &plan.bounds)?;
    root::mount_entries(root, entries)?;
    confine::write_user_files(root)?;
    // What gVisor mounts something on.
    ["dev", "proc", "sys"].iter().try_for_each(|it| fs::create_dir(root.join(it)))
}

fn guest_entries(image: &Image) -> Result<Vec<RootEntry>, StageError> {
    // Unlike in the jail, where it runs already, the agent is started anew.
    let agent = root::agent_entry().map_err(StageError::new(
        "read the guest's program as nobody; put it where every user can read it",
    ))?;
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    let mut entries = root::image_entries(image).map_err(step("find its image"))?;
    if entries.is_empty() && is_dynamically_linked().map_err(step("look at its own libraries"))? {
        entries = root::host_dirs(&LIBRARIES).map_err(step("find the libraries of its program"))?;
    }
    entries.push(agent);
    Ok(entries)
}

/// Whether the agent, which this process is too, was started with libraries.
fn is_dynamically_linked() -> io::Result<bool> {
    Ok(fs::read_to_string("/proc/self/maps")?.contains(".so"))
}

/// Returns if it fails, and otherwise never.
fn exec_runsc() -> io::Error {
    let mut command = Command::new(RUNSC);
    // The control group is around all of it already, and so is a network namespace with nothing in it.
    command.args(["--platform=systrap", "--network=none", "--ignore-cgroups", "--rootless"]);
    // The root is read-only and the workspace the guest's alone.
    command.args(["--overlay2=none", "--file-access-mounts=exclusive"]);
    command.args(["--root", "/state", "run", "--bundle", "/", "guest"]);
    command.env_clear().current_dir("/").exec()
}

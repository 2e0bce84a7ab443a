//! The stage around gVisor. Process 1 of the namespaces assembles the guest's root directory and then becomes `runsc`.

use std::{fs, io, os::unix::process::CommandExt, path::Path, process::Command};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::Signal,
};

use super::bundle;
use crate::{
    backend::{
        confine,
        jail::root::{self, RootEntry},
        plan::{AgentPlan, GuestArgs, GvisorPlan, JailPlan},
        stage_error::StageError,
    },
    spec::Image,
};

/// Path of `runsc` in gVisor's own root directory.
const RUNSC: &str = "/runsc";

/// Directory in which the root directories are assembled. Any directory works, because only this process sees what is
/// mounted there.
const STAGING_DIR: &str = "/tmp";

/// Host directories that contain only libraries. A dynamically linked agent needs them to start.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"];

/// Builds the guest's root directory and replaces this process with `runsc`, which starts the guest in that directory.
/// Returns only on failure.
pub(crate) fn outer(plan: &GvisorPlan) -> Result<(), StageError> {
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(StageError::new("arrange to be killed when its parent ends"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StageError::new("make its mounts private"))?;
    // Clone the host's mounts now, because the mount on the staging directory may cover some of them.
    let mut entries = guest_entries(&plan.guest.image)?;
    entries.extend(root::shared_dirs(&plan.guest.shared_dirs)?);
    let runsc = runsc_entries(plan).map_err(step("find `runsc`"))?;
    let base = Path::new(STAGING_DIR);
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("gvisor", base, "tmpfs", safe, c"mode=0700,size=4m,nr_inodes=512")
        .map_err(StageError::new("mount a file system for gVisor"))?;
    build_guest_root(&base.join(bundle::ROOT_DIR), &plan.guest, entries)
        .map_err(step("build the guest's root"))?;
    build_runsc_root(base, runsc).map_err(step("build gVisor's own root"))?;
    // This `/proc` shows only the processes in these namespaces. gVisor's processes find each other through it.
    mount("proc", base.join("proc"), "proc", safe | MountFlags::NOEXEC, None)
        .map_err(StageError::new("mount /proc for gVisor"))?;
    let init = GuestArgs::GvisorInit(AgentPlan { bounds: plan.guest.bounds.clone() });
    let args = init.to_args().map_err(step("write the guest's arguments"))?;
    let config = bundle::config(Path::new("/"), args).to_string();
    fs::write(base.join("config.json"), config).map_err(step("write gVisor's configuration"))?;
    root::pivot_into(base).map_err(step("switch to gVisor's root"))?;
    Err(StageError::new("start `runsc`")(exec_runsc()))
}

/// Returns the host files that gVisor itself needs, in addition to those that its guest sees.
fn runsc_entries(plan: &GvisorPlan) -> io::Result<Vec<RootEntry>> {
    Ok(vec![
        root::clone_mount(&plan.runsc, RUNSC)?,
        root::clone_mount(Path::new("/dev/null"), "/dev/null")?,
    ])
}

/// Builds a root directory for gVisor itself. Code that breaks out of gVisor sees this directory instead of the host's
/// files.
fn build_runsc_root(base: &Path, entries: Vec<RootEntry>) -> io::Result<()> {
    ["dev", "proc", "state", "tmp"].iter().try_for_each(|it| fs::create_dir(base.join(it)))?;
    root::mount_entries(base, entries)?;
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("state", base.join("state"), "tmpfs", safe, c"mode=0700,size=4m,nr_inodes=512")?)
}

fn build_guest_root(root: &Path, plan: &JailPlan, entries: Vec<RootEntry>) -> io::Result<()> {
    fs::create_dir(root)?;
    confine::mount_workspace(root, &plan.bounds)?;
    root::mount_entries(root, entries)?;
    confine::write_user_files(root)?;
    // gVisor mounts its own file systems on these directories.
    ["dev", "proc", "sys"].iter().try_for_each(|it| fs::create_dir(root.join(it)))
}

fn guest_entries(image: &Image) -> Result<Vec<RootEntry>, StageError> {
    // In the jail, the agent is already running at this point. gVisor starts the agent's program again, so the guest's
    // root directory has to contain it.
    let agent = root::agent_entry().map_err(StageError::new(
        "read the guest's program as user nobody; put it where every user can read it",
    ))?;
    let step = |what: &'static str| StageError::new::<io::Error>(what);
    let mut entries = root::image_entries(image).map_err(step("find its image"))?;
    if entries.is_empty() && is_dynamically_linked().map_err(step("read its own memory map"))? {
        entries = root::host_dirs(&LIBRARIES).map_err(step("find the libraries of its program"))?;
    }
    entries.push(agent);
    Ok(entries)
}

/// Returns whether the agent, which is also the current program, was started with shared libraries.
fn is_dynamically_linked() -> io::Result<bool> {
    Ok(fs::read_to_string("/proc/self/maps")?.contains(".so"))
}

/// Replaces this process with `runsc`. Returns only on failure.
fn exec_runsc() -> io::Error {
    let mut command = Command::new(RUNSC);
    // gVisor sets up no control group and no network, because this process already runs in the guest's control group
    // and in an empty network namespace.
    command.args(["--platform=systrap", "--network=none", "--ignore-cgroups", "--rootless"]);
    // No overlay is needed, because the root is read-only. Exclusive access is safe, because the workspace belongs to
    // this guest alone.
    command.args(["--overlay2=none", "--file-access-mounts=exclusive"]);
    command.args(["--root", "/state", "run", "--bundle", "/", "guest"]);
    command.env_clear().current_dir("/").exec()
}

//! The first program in a VM. It sets up the system around itself, restricts itself and serves requests from the host.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::chown,
    path::Path,
    time::Duration,
};

use rustix::{
    mount::{MountFlags, mount, mount_remount},
    thread::CapabilitySet,
};

use crate::{
    backend::{confine, host::NOBODY, plan::AgentPlan, stage_error::StageError},
    guest::{Agent, serve_blocking},
    meter::oom_kills::OomKillCounter,
    spec::WORKSPACE,
};

/// The only port of the guest's only serial device.
const PORT: &str = "/dev/vport0p1";

/// Maximum number of attempts to open the port, one every 10 ms, while the kernel is still detecting it.
const PORT_ATTEMPTS: u32 = 500;

/// Sets up the system around this process, which is the first process in a VM, and serves requests until the host ends
/// the session.
pub(crate) fn init(plan: &AgentPlan, agent: Agent) -> Result<(), StageError> {
    let plain = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("dev", "/dev", "devtmpfs", plain, None).map_err(StageError::new("mount /dev"))?;
    mount("proc", "/proc", "proc", plain | MountFlags::NODEV, c"subset=pid")
        .map_err(StageError::new("mount /proc"))?;
    let vmstat = confine::open_proc_file("vmstat");
    let oom_kills = vmstat.and_then(OomKillCounter::new);
    let oom_kills = oom_kills.map_err(StageError::new("open the kernel's counters"))?;
    // Read and cache the page size now, because it comes from a file below `/proc/self`, and that file is no longer
    // readable after this process has changed its user.
    let _ = rustix::param::page_size();
    load_modules().map_err(StageError::new("load its drivers"))?;
    let port = open_port().map_err(StageError::new("open its channel"))?;
    confine::mount_workspace(Path::new("/"), &plan.bounds)
        .map_err(StageError::new("mount its workspace"))?;
    for dir in [WORKSPACE, "/tmp"] {
        chown(dir, Some(NOBODY), Some(NOBODY))
            .map_err(StageError::new("change the owner of the workspace"))?;
    }
    confine::populate_root(Path::new("/")).map_err(StageError::new("populate its root"))?;
    // No program needs the driver files any more.
    let _ = fs::remove_dir_all("/modules");
    // Remove the mount point `/sys`, because nothing is mounted there.
    let _ = fs::remove_dir("/sys");
    let _ = mount_remount("/", MountFlags::RDONLY, "");
    std::env::set_current_dir(WORKSPACE).map_err(StageError::new("enter its workspace"))?;
    become_nobody().map_err(StageError::new("become user nobody"))?;
    // After a snapshot is restored, the agent uses these capabilities to set the clock and to make the kernel reseed
    // its random number generator immediately. Until then, both capabilities are permitted but not effective. Programs
    // that the agent starts get neither of them.
    let kept = CapabilitySet::SYS_TIME | CapabilitySet::SYS_ADMIN;
    confine::confine(&plan.bounds, kept)?;
    let (reader, writer) =
        (port.try_clone().map_err(StageError::new("duplicate its channel"))?, port);
    let pair = || Ok((tokio::fs::File::from_std(reader), tokio::fs::File::from_std(writer)));
    serve_blocking(agent.count_oom_kills(oom_kills), pair).map_err(StageError::new("serve"))
}

/// Loads the drivers of the guest image in the order of their file names.
fn load_modules() -> io::Result<()> {
    let modules = fs::read_dir("/modules")?.map(|it| it.map(|it| it.path()));
    let mut modules = modules.collect::<io::Result<Vec<_>>>()?;
    modules.sort();
    for module in modules {
        let file = File::open(module)?;
        match rustix::system::finit_module(&file, c"", 0) {
            // The kernel has the driver built in.
            Err(rustix::io::Errno::EXIST) => {}
            loaded => loaded?,
        }
    }
    Ok(())
}

/// Opens the port. Retries, because the kernel takes some time to detect the port and to connect it to the host.
fn open_port() -> io::Result<File> {
    let mut attempts = 0;
    loop {
        match File::options().read(true).write(true).open(PORT) {
            Err(error) if is_not_ready(&error) && attempts < PORT_ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// Returns whether the port does not exist yet, or is not connected yet.
fn is_not_ready(error: &io::Error) -> bool {
    let codes = [rustix::io::Errno::NOENT, rustix::io::Errno::NXIO];
    codes.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// Becomes the user `nobody`, but keeps the capabilities until [`confine::confine`] drops them.
fn become_nobody() -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    rustix::thread::set_keep_capabilities(true)?;
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    // Changing the user keeps the capabilities permitted but clears the effective set.
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective = sets.permitted;
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

//! The guest's first program: makes a system around itself, closes the doors behind itself and serves.

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

use super::InitPlan;
use crate::{
    backend::confine,
    guest::{Agent, ServeError, WORKSPACE, serve_blocking},
    image::MODULES,
};

/// The user that all programs of the guest are.
const NOBODY: u32 = 65_534;

/// The one port of the guest's one serial device.
const PORT: &str = "/dev/vport0p1";

/// How long the kernel may take to find it.
const PORT_ATTEMPTS: u32 = 500;

/// Why a guest did not come up. It is read on the console.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A step that failed.
    #[error("the guest cannot {what}: {source}")]
    Step {
        /// The step.
        what: &'static str,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The agent failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Makes a system around this process, the first one of a VM, and serves in it until the host is done.
pub fn init(plan: &InitPlan, agent: Agent) -> Result<(), InitError> {
    let plain = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("dev", "/dev", "devtmpfs", plain, None).map_err(failed_to("mount its devices"))?;
    mount("proc", "/proc", "proc", plain | MountFlags::NODEV, c"subset=pid")
        .map_err(failed_to("mount its processes"))?;
    // It is found in a file below `/proc/self`, which is closed to whoever has changed users, and remembered.
    let _ = rustix::param::page_size();
    load_modules().map_err(failed_to("load its drivers"))?;
    let port = open_port().map_err(failed_to("open its channel"))?;
    confine::mount_workspace(Path::new("/"), &plan.bounds)
        .map_err(failed_to("make its workspace"))?;
    for dir in [WORKSPACE, "/tmp"] {
        chown(dir, Some(NOBODY), Some(NOBODY)).map_err(failed_to("give the workspace away"))?;
    }
    confine::populate_root(Path::new("/")).map_err(failed_to("furnish its root"))?;
    // No program needs the drivers' files, nor the first program's.
    let _ = fs::remove_dir_all("/modules");
    // Nothing is mounted there.
    let _ = fs::remove_dir("/sys");
    let _ = mount_remount("/", MountFlags::RDONLY, "");
    std::env::set_current_dir(WORKSPACE).map_err(failed_to("enter its workspace"))?;
    become_nobody().map_err(failed_to("become nobody"))?;
    // After a snapshot the agent sets the clock, and tells the kernel to take in new randomness at once. Until then it
    // lays both rights down, and a program that is started gets neither.
    let kept = CapabilitySet::SYS_TIME | CapabilitySet::SYS_ADMIN;
    confine::confine(&plan.bounds, kept).map_err(failed_to("close its doors"))?;
    let (reader, writer) = (port.try_clone().map_err(failed_to("use its channel"))?, port);
    let pair = || Ok((tokio::fs::File::from_std(reader), tokio::fs::File::from_std(writer)));
    Ok(serve_blocking(agent, pair)?)
}

fn failed_to<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> InitError {
    move |source| InitError::Step { what, source: source.into() }
}

fn load_modules() -> io::Result<()> {
    for module in MODULES {
        let file = File::open(format!("/modules/{module}.ko"))?;
        match rustix::system::finit_module(&file, c"", 0) {
            // A kernel that has it built in.
            Err(rustix::io::Errno::EXIST) => {}
            loaded => loaded?,
        }
    }
    Ok(())
}

/// The kernel finds the port in its own time, and the port its other end.
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

/// Whether the port is not there yet, or there and not connected yet.
fn is_not_ready(error: &io::Error) -> bool {
    let codes = [rustix::io::Errno::NOENT, rustix::io::Errno::NXIO];
    codes.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// Keeps its capabilities until [`confine::confine`] takes them.
fn become_nobody() -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    rustix::thread::set_keep_capabilities(true)?;
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    // They were kept, but laid down.
    let mut kept = rustix::thread::capabilities(None)?;
    kept.effective = kept.permitted;
    Ok(rustix::thread::set_capabilities(None, kept)?)
}

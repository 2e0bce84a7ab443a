//! The stage around QEMU. Process 1 of the namespaces builds a root directory that contains QEMU and then becomes QEMU
//! in it.
//!
//! A guest that takes over QEMU runs as an unprivileged user, without capabilities or a way to gain any, in a read-only
//! root directory that contains QEMU's own files. It has no network and sees no other processes.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::Command,
};

use rustix::{
    fs::{MemfdFlags, SealFlags},
    io::FdFlags,
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{Resource, Signal},
    thread::CapabilitySet,
};

use super::qemu::QemuFds;
use crate::backend::{
    confine, fd_passing,
    host::KVM_DEVICE,
    jail::{init, root},
    plan::QemuPlan,
    stage_error::StageError,
};

/// Directory in which the root is assembled. Any directory works, because only this process sees what is mounted there.
const STAGING_DIR: &str = "/tmp";

/// Maximum number of file descriptors that QEMU may have open.
const MAX_FDS: u64 = 256;

/// Stores bytes in a sealed memory file. QEMU can read such a file although QEMU cannot open host files. No process can
/// change the file.
pub(super) fn sealed_memfd(name: &str, parts: &[&[u8]]) -> io::Result<OwnedFd> {
    use std::io::Write;
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    parts.iter().try_for_each(|it| file.write_all(it))?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    Ok(file.into())
}

/// Builds the root directory and replaces this process with QEMU. Returns only on failure. Standard input is the
/// channel. The first message on it carries the file descriptors of the monitor, the kernel and the initrd.
pub(crate) fn become_qemu(plan: &QemuPlan) -> Result<(), StageError> {
    let failed_to = |what: &'static str| StageError::new::<io::Error>(what);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(StageError::new("arrange to be killed when its parent ends"))?;
    let channel = OwnedFd::from(init::take_channel().map_err(failed_to("take over its channel"))?);
    let [monitor, kernel, initrd] =
        fd_passing::receive(&channel).map_err(failed_to("receive its kernel and initrd"))?;
    build_root(plan)?;
    rustix::system::sethostname(b"sandbox").map_err(StageError::new("set its host name"))?;
    // The guest's console goes to the same place as QEMU's error messages.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())
        .map_err(StageError::new("redirect its console"))?;
    restrict(plan)?;
    let fds = QemuFds {
        channel: channel.as_raw_fd(),
        monitor: monitor.as_raw_fd(),
        kernel: kernel.as_raw_fd(),
        initrd: initrd.as_raw_fd(),
    };
    for descriptor in [&channel, &monitor, &kernel, &initrd] {
        rustix::io::fcntl_setfd(descriptor.as_fd(), FdFlags::empty())
            .map_err(StageError::new("pass its files to QEMU"))?;
    }
    let mut command = Command::new(&plan.qemu.program);
    command.args(plan.machine.args(fds)).env_clear().current_dir("/");
    Err(StageError::new("start QEMU")(command.exec()))
}

fn build_root(plan: &QemuPlan) -> Result<(), StageError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StageError::new("make its mounts private"))?;
    let mut paths: Vec<&Path> = plan.qemu.paths.iter().map(|it| it.as_path()).collect();
    paths.extend(plan.has_kvm().then_some(Path::new(KVM_DEVICE)));
    let base = Path::new(STAGING_DIR);
    let mount_all = || -> io::Result<()> {
        // Clone the host's mounts now, because the mount on the staging directory may cover some of them.
        let entries: io::Result<Vec<_>> =
            paths.iter().map(|it| root::clone_mount(it, it)).collect();
        let entries = entries?;
        let safe = MountFlags::NOSUID | MountFlags::NODEV;
        mount("qemu", base, "tmpfs", safe, c"mode=0755,size=1m,nr_inodes=1024")?;
        for dir in paths.iter().filter_map(|it| it.parent()) {
            fs::create_dir_all(confine::path_in_root(base, dir))?;
        }
        root::mount_entries(base, entries)?;
        // QEMU opens its kernel through a path in `/proc/self/fd`.
        let processes = base.join("proc");
        fs::create_dir(&processes)?;
        mount("proc", &processes, "proc", safe | MountFlags::NOEXEC, c"subset=pid")?;
        root::pivot_into(base)
    };
    mount_all().map_err(StageError::new("build a root for QEMU"))
}

/// Restricts this process to the resources and rights that QEMU needs.
fn restrict(plan: &QemuPlan) -> Result<(), StageError> {
    let limits = [
        (Resource::Core, 0),
        (Resource::Nofile, MAX_FDS),
        (Resource::Fsize, plan.machine.max_state_size()),
    ];
    confine::lower_rlimits(&limits).map_err(StageError::new("set QEMU's resource limits"))?;
    confine::drop_capabilities(CapabilitySet::empty())
        .map_err(StageError::new("drop its capabilities"))?;
    // No file is writable except the KVM device, if there is one.
    confine::apply_landlock(&[KVM_DEVICE])
        .map_err(StageError::new("restrict its files with landlock"))
}

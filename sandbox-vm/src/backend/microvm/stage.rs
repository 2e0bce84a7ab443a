//! The stage around QEMU: process 1 of the namespaces builds a root that holds QEMU, and becomes QEMU in it.
//!
//! A guest that takes QEMU over finds itself there: nobody, without a capability or a way to one, in a read-only root
//! with QEMU's own files, without a network, among no other processes.

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
    process::{Gid, Resource, Rlimit, Signal},
    thread::CapabilitySet,
};
use serde::{Deserialize, Serialize};

use super::{
    parts::Parts,
    qemu::{self, Accelerator, Given, Machine},
};
use crate::backend::{
    confine, descriptors,
    jail::{JailError, init, root},
};

/// Where the root is put together. Any folder does: the mount is seen by this process alone.
const BASE: &str = "/tmp";

/// How many descriptors QEMU may have.
const DESCRIPTORS: u64 = 256;

/// What the stage has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    pub(super) qemu: Parts,
    pub(super) machine: Machine,
}

impl Stage {
    /// The group without which QEMU could not open its device.
    pub(crate) fn group(&self) -> Option<Gid> {
        if self.has_kvm() { qemu::group_of_kvm() } else { None }
    }

    fn has_kvm(&self) -> bool {
        self.machine.accelerator == Accelerator::Kvm
    }
}

/// Puts bytes where QEMU can read them though it can open no file of the host's, and where nobody can change them.
pub(super) fn sealed(name: &str, parts: &[&[u8]]) -> io::Result<OwnedFd> {
    use std::io::Write;
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    parts.iter().try_for_each(|it| file.write_all(it))?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    Ok(file.into())
}

/// Builds the root and becomes QEMU; returns if that fails. Standard input is the channel, and in it, before anything
/// else, lie the monitor, the kernel and the first file system.
pub fn become_qemu(stage: &Stage) -> Result<(), JailError> {
    let step = |what: &'static str| JailError::new::<io::Error>(what);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(JailError::new("end with its host"))?;
    let channel = OwnedFd::from(init::take_channel().map_err(step("take its channel"))?);
    let [monitor, kernel, initrd] =
        descriptors::receive(&channel).map_err(step("take its kernel"))?;
    build(stage)?;
    rustix::system::sethostname(b"sandbox").map_err(JailError::new("take a host name"))?;
    // The guest's console is heard where QEMU's complaints are.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(JailError::new("be heard"))?;
    close(stage)?;
    let given = Given {
        channel: channel.as_raw_fd(),
        monitor: monitor.as_raw_fd(),
        kernel: kernel.as_raw_fd(),
        initrd: initrd.as_raw_fd(),
    };
    for descriptor in [&channel, &monitor, &kernel, &initrd] {
        rustix::io::fcntl_setfd(descriptor.as_fd(), FdFlags::empty())
            .map_err(JailError::new("give QEMU its files"))?;
    }
    let mut command = Command::new(&stage.qemu.program);
    command.args(stage.machine.args(given)).env_clear().current_dir("/");
    Err(JailError::new("start QEMU")(command.exec()))
}

fn build(stage: &Stage) -> Result<(), JailError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(JailError::new("keep its mounts to itself"))?;
    let mut paths: Vec<&Path> = stage.qemu.paths.iter().map(|it| it.as_path()).collect();
    paths.extend(stage.has_kvm().then_some(Path::new(qemu::KVM)));
    let base = Path::new(BASE);
    let place = || -> io::Result<()> {
        // Taken before anything covers them.
        let pieces: io::Result<Vec<_>> = paths.iter().map(|it| root::take(it, it)).collect();
        let pieces = pieces?;
        let safe = MountFlags::NOSUID | MountFlags::NODEV;
        mount("qemu", base, "tmpfs", safe, c"mode=0755,size=1m,nr_inodes=1024")?;
        for folder in paths.iter().filter_map(|it| it.parent()) {
            fs::create_dir_all(confine::below(base, folder))?;
        }
        root::place(base, pieces)?;
        // QEMU reads its kernel by the path that a descriptor has here.
        let processes = base.join("proc");
        fs::create_dir(&processes)?;
        mount("proc", &processes, "proc", safe | MountFlags::NOEXEC, c"subset=pid")?;
        root::move_into(base)
    };
    place().map_err(JailError::new("make a root for QEMU"))
}

/// Takes from this process all that QEMU does not need.
fn close(stage: &Stage) -> Result<(), JailError> {
    let limits = [
        (Resource::Core, 0),
        (Resource::Nofile, DESCRIPTORS),
        (Resource::Fsize, stage.machine.largest_state()),
    ];
    for (resource, limit) in limits {
        let limit = rustix::process::getrlimit(resource).maximum.map_or(limit, |it| it.min(limit));
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        rustix::process::setrlimit(resource, limit).map_err(JailError::new("bound QEMU"))?;
    }
    confine::drop_capabilities(CapabilitySet::empty())
        .map_err(JailError::new("drop its capabilities"))?;
    // Nothing is written but the device, where there is one.
    confine::restrict_files(&[qemu::KVM])
        .map_err(JailError::new("restrict its files with landlock"))
}

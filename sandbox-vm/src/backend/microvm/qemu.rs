//! The command line of QEMU. It describes a machine that has only processors, memory, a console, a source of randomness
//! and one channel.

use std::{os::fd::RawFd, os::unix::fs::MetadataExt, path::Path};

use rustix::process::Gid;
use serde::{Deserialize, Serialize};

use super::initrd::LIBRARY_DIR;
use crate::{backend::host::KVM_DEVICE, limits::Limits};

/// Name of the QEMU program.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// Memory in bytes that the guest's kernel, its file tables and the agent need in addition to the guest's memory limit.
const GUEST_OVERHEAD: u64 = 96 << 20;

/// Size of QEMU's cache of translated instructions in MiB. When it is full, QEMU drops translations.
const TRANSLATION_CACHE_MIB: u64 = 64;

/// Memory in bytes that QEMU needs in addition to the machine's memory, for its program, its own state and the
/// translation cache.
const QEMU_MEMORY: u64 = (128 + TRANSLATION_CACHE_MIB) << 20;

/// Processor that executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backend) enum Accelerator {
    /// The host's processor, through KVM.
    Kvm,
    /// QEMU's own emulation of a processor.
    Emulation,
}

impl Accelerator {
    /// Returns the accelerator to try first. This is KVM if it can run ordinary kernels and this user may open its
    /// device, and emulation otherwise.
    ///
    /// KVM is assumed to run ordinary kernels if the module `kvm_intel` or `kvm_amd` is loaded. Some virtual machines
    /// provide other kinds of KVM, under which guest kernels hang.
    pub(super) fn choose() -> Self {
        let hardware =
            ["kvm_intel", "kvm_amd"].iter().any(|it| Path::new("/sys/module").join(it).exists());
        let usable = std::fs::File::options().read(true).write(true).open(KVM_DEVICE).is_ok();
        if hardware && usable && nobody_can_open_kvm() { Self::Kvm } else { Self::Emulation }
    }
}

/// Returns whether QEMU, which may run as another user than this process, can open the KVM device. If this process runs
/// as root, QEMU runs as the user `nobody`, with the device's group as its only additional right. Otherwise QEMU runs
/// as the same user as this process, and this function returns `true`.
fn nobody_can_open_kvm() -> bool {
    let is_open = |mode: u32| mode & 0o060 == 0o060 || mode & 0o006 == 0o006;
    !rustix::process::geteuid().is_root()
        || std::fs::metadata(KVM_DEVICE).is_ok_and(|it| is_open(it.mode()))
}

/// Returns the group that owns the KVM device.
pub(in crate::backend) fn kvm_group() -> Option<Gid> {
    Some(Gid::from_raw(std::fs::metadata(KVM_DEVICE).ok()?.gid()))
}

/// Configuration of a machine, except for the files that QEMU is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backend) struct Machine {
    pub(in crate::backend) accelerator: Accelerator,
    /// Size of the machine's memory in MiB.
    memory: u64,
    processors: u32,
    /// Whether the machine waits for the state of a snapshot instead of booting its kernel.
    awaits_state: bool,
    /// Name of the dynamic loader that starts the agent, or `None` if the agent is statically linked.
    loader: Option<String>,
    /// Arguments of the agent in the guest.
    agent_args: String,
}

/// How a machine starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartMode {
    /// Boot the kernel.
    Boot,
    /// Wait for the state of a snapshot.
    AwaitState,
}

/// File descriptors that QEMU is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct QemuFds {
    /// Channel between the host and the guest's agent.
    pub(super) channel: RawFd,
    /// Control connection to QEMU's monitor.
    pub(super) monitor: RawFd,
    /// File with the guest's kernel.
    pub(super) kernel: RawFd,
    /// File with the guest's initrd.
    pub(super) initrd: RawFd,
}

impl Machine {
    /// Creates the configuration of a machine with the given limits. `initrd_size` is in bytes.
    pub(super) fn new(
        accelerator: Accelerator,
        limits: &Limits,
        initrd_size: u64,
        start: StartMode,
        loader: Option<String>,
        agent_args: String,
    ) -> Self {
        Self {
            accelerator,
            memory: machine_memory(limits, initrd_size).div_ceil(1 << 20),
            processors: limits.cpus.ceil().max(1.0) as u32,
            awaits_state: start == StartMode::AwaitState,
            loader,
            agent_args,
        }
    }

    /// Returns QEMU's arguments.
    pub(super) fn args(&self, fds: QemuFds) -> Vec<String> {
        let (accelerator, processor) = match self.accelerator {
            Accelerator::Kvm => ("kvm".to_owned(), "host"),
            Accelerator::Emulation => (format!("tcg,tb-size={TRANSLATION_CACHE_MIB}"), "max"),
        };
        let file = |descriptor: RawFd| format!("/proc/self/fd/{descriptor}");
        let socket = |id: &str, descriptor: RawFd| format!("socket,id={id},fd={descriptor}");
        let mut args = Args::default();
        // The machine has no firmware, no PCI and no timer chip.
        args.option("-M", "microvm,pit=off,pic=off");
        args.option("-accel", accelerator);
        args.option("-cpu", processor);
        args.option("-m", format!("{}M", self.memory));
        args.option("-smp", self.processors.to_string());
        for flag in ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"] {
            args.flag(flag);
        }
        // Prevents QEMU itself from starting programs or changing its user.
        args.option(
            "-sandbox",
            "on,obsolete=deny,spawn=deny,resourcecontrol=deny,elevateprivileges=deny",
        );
        args.option("-serial", "stdio");
        args.option("-kernel", file(fds.kernel));
        args.option("-initrd", file(fds.initrd));
        args.option("-append", self.kernel_command_line());
        args.option("-chardev", socket("channel", fds.channel));
        args.option("-device", "virtio-serial-device");
        args.option("-device", "virtserialport,chardev=channel,name=agent");
        args.option("-device", "virtio-rng-device");
        args.option("-chardev", socket("monitor", fds.monitor));
        args.option("-mon", "chardev=monitor,mode=control");
        if self.awaits_state {
            args.option("-incoming", "defer");
        }
        args.0
    }

    /// Describes the guest's limits as text. A snapshot can be restored only in a machine with the same limits.
    pub(super) fn describe_size(&self, limits: &Limits) -> String {
        let Limits { processes, files, disk, .. } = limits;
        let Self { memory, processors, .. } = self;
        format!(
            "{memory} MiB of memory, {processors} processors, {processes} processes, {files} files, {disk} bytes of disk"
        )
    }

    /// Returns the maximum size in bytes of the only file that QEMU writes, which is the state of the machine in a
    /// snapshot.
    pub(super) fn max_state_size(&self) -> u64 {
        (self.memory + self.memory / 8 + 64) << 20
    }

    fn kernel_command_line(&self) -> String {
        let mut line = "console=ttyS0 quiet panic=-1 pci=off random.trust_cpu=on".to_owned();
        if self.accelerator == Accelerator::Emulation {
            // An emulated machine without a timer chip has nothing to calibrate its clock against, so specify the clock
            // rates.
            line += " tsc_early_khz=2000000 lpj=8000000 no_timer_check";
        }
        let args = &self.agent_args;
        match &self.loader {
            None => format!("{line} -- {args}"),
            // The kernel starts the loader, which loads the agent.
            Some(loader) => format!(
                "{line} rdinit=/{LIBRARY_DIR}/{loader} -- --library-path /{LIBRARY_DIR} /agent {args}"
            ),
        }
    }
}

/// Returns the size of a machine's memory in bytes. While the guest boots, the memory contains the initrd both packed
/// and unpacked.
fn machine_memory(limits: &Limits, initrd_size: u64) -> u64 {
    limits.memory.saturating_add(GUEST_OVERHEAD + 2 * initrd_size)
}

/// Returns the maximum number of bytes of host memory that the machine and QEMU use together.
pub(super) fn footprint(limits: &Limits, initrd_size: u64) -> u64 {
    machine_memory(limits, initrd_size).saturating_add(QEMU_MEMORY)
}

#[derive(Debug, Default)]
struct Args(Vec<String>);

impl Args {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.to_owned());
    }

    fn option(&mut self, name: &str, value: impl Into<String>) {
        self.0.extend([name.to_owned(), value.into()]);
    }
}

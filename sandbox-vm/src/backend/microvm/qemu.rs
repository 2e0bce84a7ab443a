//! The command line of QEMU: a machine with a processor, memory, a console and one channel, and nothing else.

use std::{os::fd::RawFd, os::unix::fs::MetadataExt, path::Path};

use rustix::process::Gid;
use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// Name of the QEMU program.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// The KVM device.
pub(super) const KVM_DEVICE: &str = "/dev/kvm";

/// Memory that the guest's kernel, its file tables and the agent need besides the guest's limit.
const GUEST_OVERHEAD: u64 = 96 << 20;

/// Size of QEMU's cache of translated instructions in MiB. When it is full, QEMU drops translations.
const TRANSLATION_CACHE_MIB: u64 = 64;

/// Memory that QEMU needs besides the machine's memory: its program, its own state and the translation cache.
const QEMU_MEMORY: u64 = (128 + TRANSLATION_CACHE_MIB) << 20;

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU.
    Emulation,
}

impl Accelerator {
    /// Returns the accelerator to try first: KVM if it is of a kind that runs ordinary kernels and this user may use
    /// it.
    ///
    /// KVM of other kinds, as inside some virtual machines, has neither of these modules: guest kernels hang in it.
    pub(super) fn choose() -> Self {
        let hardware =
            ["kvm_intel", "kvm_amd"].iter().any(|it| Path::new("/sys/module").join(it).exists());
        let usable = std::fs::File::options().read(true).write(true).open(KVM_DEVICE).is_ok();
        if hardware && usable && nobody_can_open_kvm() { Self::Kvm } else { Self::Emulation }
    }
}

/// Returns whether QEMU can open the device. Root's QEMU runs as the user `nobody`, which can be given the device's
/// group and nothing else.
fn nobody_can_open_kvm() -> bool {
    let is_open = |mode: u32| mode & 0o060 == 0o060 || mode & 0o006 == 0o006;
    !rustix::process::geteuid().is_root()
        || std::fs::metadata(KVM_DEVICE).is_ok_and(|it| is_open(it.mode()))
}

/// Returns the group that may use KVM.
pub(super) fn kvm_group() -> Option<Gid> {
    Some(Gid::from_raw(std::fs::metadata(KVM_DEVICE).ok()?.gid()))
}

/// Everything that defines a machine, except for the files it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) accelerator: Accelerator,
    /// In MiB.
    memory: u64,
    processors: u32,
    /// Whether it waits for the state of a snapshot instead of booting its kernel.
    awaits_state: bool,
    /// Arguments of the agent in the guest.
    agent_args: String,
}

/// What a machine does first.
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
    /// The guest's channel.
    pub(super) channel: RawFd,
    /// QEMU's own monitor.
    pub(super) monitor: RawFd,
    /// The kernel.
    pub(super) kernel: RawFd,
    /// The initrd.
    pub(super) initrd: RawFd,
}

impl Machine {
    /// Describes a machine for these limits, with an initrd of this size in bytes.
    pub(super) fn new(
        accelerator: Accelerator,
        limits: &Limits,
        initrd_size: u64,
        start: StartMode,
        agent_args: String,
    ) -> Self {
        Self {
            accelerator,
            memory: machine_memory(limits, initrd_size).div_ceil(1 << 20),
            processors: limits.cpus.ceil().max(1.0) as u32,
            awaits_state: start == StartMode::AwaitState,
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
        // No firmware, no PCI, no timer chip.
        args.option("-M", "microvm,pit=off,pic=off");
        args.option("-accel", accelerator);
        args.option("-cpu", processor);
        args.option("-m", format!("{}M", self.memory));
        args.option("-smp", self.processors.to_string());
        for flag in ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"] {
            args.flag(flag);
        }
        // QEMU itself may not start programs or change its user.
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

    /// Maximum size in bytes of a file that QEMU writes: the state of the machine in a snapshot.
    pub(super) fn max_state_size(&self) -> u64 {
        (self.memory + self.memory / 8 + 64) << 20
    }

    fn kernel_command_line(&self) -> String {
        let mut line = "console=ttyS0 quiet panic=-1 pci=off random.trust_cpu=on".to_owned();
        if self.accelerator == Accelerator::Emulation {
            // An emulated machine without a timer chip has nothing to calibrate its clock against.
            line += " tsc_early_khz=2000000 lpj=8000000 no_timer_check";
        }
        format!("{line} -- {}", self.agent_args)
    }
}

/// Returns the size of a machine's memory in bytes. For a moment it contains the initrd both packed and unpacked.
fn machine_memory(limits: &Limits, initrd_size: u64) -> u64 {
    limits.memory.saturating_add(GUEST_OVERHEAD + 2 * initrd_size)
}

/// Returns the maximum number of bytes that the machine and QEMU use together.
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

//! How QEMU is started: a machine with a processor, memory, a console and one channel, and nothing else.

use std::{os::fd::RawFd, os::unix::fs::MetadataExt, path::Path};

use rustix::process::Gid;
use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// The program that emulates and virtualises.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// The device that a processor's help is asked for at.
pub(super) const KVM_DEVICE: &str = "/dev/kvm";

/// What the guest's kernel, its file tables and the agent need besides what the guest may use.
const GUEST_OVERHEAD: u64 = 96 << 20;

/// In MiB: what QEMU may keep of instructions that it has translated. It forgets the oldest then.
const TRANSLATION_CACHE_MIB: u64 = 64;

/// What QEMU needs besides the machine's memory: its program, its own state, and what it has translated.
const QEMU_MEMORY: u64 = (128 + TRANSLATION_CACHE_MIB) << 20;

/// Who runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU.
    Emulation,
}

impl Accelerator {
    /// What to try first: the processor where KVM_DEVICE is one of the kinds that run ordinary kernels, and this user may use
    /// it.
    ///
    /// A KVM_DEVICE of another kind, as inside some virtual machines, has no module of either name: guest kernels hang in it.
    pub(super) fn choose() -> Self {
        let hardware =
            ["kvm_intel", "kvm_amd"].iter().any(|it| Path::new("/sys/module").join(it).exists());
        let usable = std::fs::File::options().read(true).write(true).open(KVM_DEVICE).is_ok();
        if hardware && usable && nobody_can_open_kvm() { Self::Kvm } else { Self::Emulation }
    }
}

/// Root's QEMU is nobody, who can be given the device's group, and no more.
fn nobody_can_open_kvm() -> bool {
    let is_open = |mode: u32| mode & 0o060 == 0o060 || mode & 0o006 == 0o006;
    !rustix::process::geteuid().is_root()
        || std::fs::metadata(KVM_DEVICE).is_ok_and(|it| is_open(it.mode()))
}

/// The group that may use KVM_DEVICE.
pub(super) fn kvm_group() -> Option<Gid> {
    Some(Gid::from_raw(std::fs::metadata(KVM_DEVICE).ok()?.gid()))
}

/// All that makes up a machine, but for the files that it is fds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) accelerator: Accelerator,
    /// In MiB.
    memory: u64,
    processors: u32,
    /// Whether it waits for the state of a snapshot, in place of starting its kernel.
    awaits_state: bool,
    /// What the agent in the guest is told.
    agent_args: String,
}

/// What a machine does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartMode {
    /// It starts its kernel.
    Boot,
    /// It waits for the state of a snapshot.
    AwaitState,
}

/// The descriptors that QEMU is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct QemuFds {
    /// The guest's channel.
    pub(super) channel: RawFd,
    /// QEMU's own monitor.
    pub(super) monitor: RawFd,
    /// The kernel.
    pub(super) kernel: RawFd,
    /// The first file system.
    pub(super) initrd: RawFd,
}

impl Machine {
    /// A machine for these limits, whose first file system has so many bytes.
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

    /// QEMU's arguments.
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
        // QEMU itself may start nothing and become nobody else.
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

    /// What the guest may use, in words: a snapshot of it goes on in a machine of the same size only.
    pub(super) fn describe_size(&self, limits: &Limits) -> String {
        let Limits { processes, files, disk, .. } = limits;
        let Self { memory, processors, .. } = self;
        format!(
            "{memory} MiB of memory, {processors} processors, {processes} processes, {files} files, {disk} bytes of disk"
        )
    }

    /// The most bytes that a file may have which QEMU writes: the state of the machine, in a snapshot.
    pub(super) fn max_state_size(&self) -> u64 {
        (self.memory + self.memory / 8 + 64) << 20
    }

    fn kernel_command_line(&self) -> String {
        let mut line = "console=ttyS0 quiet panic=-1 pci=off random.trust_cpu=on".to_owned();
        if self.accelerator == Accelerator::Emulation {
            // An emulated machine without a timer chip has nothing to measure its clock against.
            line += " tsc_early_khz=2000000 lpj=8000000 no_timer_check";
        }
        format!("{line} -- {}", self.agent_args)
    }
}

/// The bytes of a machine's memory. The first file system lies in it, packed and unpacked for a moment.
fn machine_memory(limits: &Limits, initrd_size: u64) -> u64 {
    limits.memory.saturating_add(GUEST_OVERHEAD + 2 * initrd_size)
}

/// The bytes that the machine and QEMU take together, at most.
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

//! How QEMU is started: a machine with a processor, memory, a console and one channel, and nothing else.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::limits::Limits;

/// The program that emulates and virtualises.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// What the guest's kernel, its file tables and the agent need besides what the guest may use.
const OWN_MEMORY: u64 = 96 << 20;

/// Who runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU.
    Emulation,
}

impl Accelerator {
    /// Takes the processor where KVM is one of the kinds that run ordinary kernels, and this user may use it.
    ///
    /// A KVM of another kind, as inside some virtual machines, has no module of either name: guest kernels hang in it.
    pub(super) fn choose() -> Self {
        let ordinary =
            ["kvm_intel", "kvm_amd"].iter().any(|it| Path::new("/sys/module").join(it).exists());
        let usable = std::fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
        if ordinary && usable { Self::Kvm } else { Self::Emulation }
    }
}

/// All that makes up a machine.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) accelerator: Accelerator,
    pub(super) kernel: &'a Path,
    pub(super) initrd: &'a Path,
    pub(super) limits: &'a Limits,
    /// The socket that QEMU connects the guest's channel to.
    pub(super) channel: PathBuf,
    /// The socket that QEMU connects its monitor to.
    pub(super) monitor: PathBuf,
    /// Whether it waits for the state of a snapshot, in place of starting its kernel.
    pub(super) awaits_state: bool,
    /// What the agent in the guest is told.
    pub(super) agent_args: String,
}

impl Machine<'_> {
    /// QEMU's arguments.
    pub(super) fn args(&self) -> Vec<OsString> {
        let (accelerator, processor) = match self.accelerator {
            Accelerator::Kvm => ("kvm", "host"),
            Accelerator::Emulation => ("tcg", "max"),
        };
        let mut args = Args::default();
        // No firmware, no PCI, no timer chip.
        args.option("-M", "microvm,pit=off,pic=off");
        args.option("-accel", accelerator);
        args.option("-cpu", processor);
        args.option("-m", format!("{}M", self.memory()));
        args.option("-smp", self.processors().to_string());
        for flag in ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"] {
            args.flag(flag);
        }
        // QEMU itself may start nothing. Root's QEMU opens its files and then becomes nobody, which is the one change
        // of user that it has to be allowed.
        let filter = "on,obsolete=deny,spawn=deny,resourcecontrol=deny,elevateprivileges=";
        if rustix::process::geteuid().is_root() {
            args.option("-sandbox", format!("{filter}allow"));
            args.option("-runas", "nobody");
        } else {
            args.option("-sandbox", format!("{filter}deny"));
        }
        args.option("-serial", "stdio");
        args.option("-kernel", self.kernel);
        args.option("-initrd", self.initrd);
        args.option("-append", self.kernel_line());
        args.option("-chardev", socket("channel", &self.channel));
        args.option("-device", "virtio-serial-device");
        args.option("-device", "virtserialport,chardev=channel,name=agent");
        args.option("-device", "virtio-rng-device");
        args.option("-chardev", socket("monitor", &self.monitor));
        args.option("-mon", "chardev=monitor,mode=control");
        if self.awaits_state {
            args.option("-incoming", "defer");
        }
        args.0
    }

    /// What the guest may use, in words: a snapshot of it goes on in a machine of the same size only.
    pub(super) fn size(&self) -> String {
        let Limits { processes, files, disk, .. } = self.limits;
        let (memory, processors) = (self.memory(), self.processors());
        format!(
            "{memory} MiB of memory, {processors} processors, {processes} processes, {files} files, {disk} bytes of disk"
        )
    }

    /// In MiB.
    fn memory(&self) -> u64 {
        (self.limits.memory + OWN_MEMORY + self.size_of_root()).div_ceil(1 << 20)
    }

    fn processors(&self) -> u32 {
        self.limits.cpus.ceil().max(1.0) as u32
    }

    fn kernel_line(&self) -> String {
        let mut line = "console=ttyS0 quiet panic=-1 pci=off random.trust_cpu=on".to_owned();
        if self.accelerator == Accelerator::Emulation {
            // An emulated machine without a timer chip has nothing to measure its clock against.
            line += " tsc_early_khz=2000000 lpj=8000000 no_timer_check";
        }
        format!("{line} -- {}", self.agent_args)
    }

    /// The first file system lies in the guest's memory, packed and unpacked for a moment.
    fn size_of_root(&self) -> u64 {
        2 * std::fs::metadata(self.initrd).map_or(0, |it| it.len())
    }
}

/// A connection of QEMU to a socket that is there already.
fn socket(id: &str, path: &Path) -> OsString {
    let mut words = OsString::from(format!("socket,id={id},path="));
    words.push(path);
    words
}

#[derive(Debug, Default)]
struct Args(Vec<OsString>);

impl Args {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([name.into(), value.into()]);
    }
}

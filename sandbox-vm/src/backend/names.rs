//! Names of the back ends, as they appear in reports and errors.

#[cfg(feature = "docker")]
pub(super) const DOCKER: &str = "docker";
pub(super) const GVISOR: &str = "gvisor";
pub(super) const IN_PROCESS: &str = "in-process";
pub(super) const JAIL: &str = "jail";
#[cfg(target_arch = "x86_64")]
pub(super) const KVM_PROCESS: &str = "kvm-process";
pub(super) const MICRO_VM: &str = "microvm";

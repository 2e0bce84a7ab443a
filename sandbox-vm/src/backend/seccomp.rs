//! The system calls that a guest may make: a list, kept as data in `policy/calls.json`.
//!
//! A call that is not on the list fails as if the kernel did not have it, so that a program takes its next best way.

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};

const GUEST_POLICY: &str = include_str!("../../policy/calls.json");

/// What the monitor of a VM may call, which starts nothing and opens nothing.
#[cfg(target_arch = "x86_64")]
const MONITOR_POLICY: &str = include_str!("../../policy/monitor.json");

/// Who bounds the memory of all processes of a guest together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryEnforcement {
    /// A kernel, by a control group or because the machine has no more.
    Kernel,
    /// Nobody but the agent, who looks at what each process has. So there may be none that no process has: shared memory
    /// stays while nobody looks at it, and a file in memory while it is open.
    Agent,
}

/// The list as a program for the kernel.
pub(super) fn guest_filter(
    memory: MemoryEnforcement,
) -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    compile(GUEST_POLICY, std::env::consts::ARCH, memory)
}

/// The list of a VM's monitor as a program for the kernel.
#[cfg(target_arch = "x86_64")]
pub(super) fn monitor_filter() -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    compile(MONITOR_POLICY, std::env::consts::ARCH, MemoryEnforcement::Kernel)
}

/// From here on this process, and all it starts, can make the rules_of calls only.
pub(super) fn apply(filter: &BpfProgram) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(filter)
}

fn compile(
    policy: &str,
    arch: &str,
    memory: MemoryEnforcement,
) -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    let policy: Value = serde_json::from_str(policy)?;
    let rules_of = |part: &str| policy[part].as_array().cloned().unwrap_or_default();
    let memory = match memory {
        MemoryEnforcement::Kernel => "bounded",
        MemoryEnforcement::Agent => "unbounded",
    };
    let rules = [rules_of("common"), rules_of(arch), rules_of(memory)].concat();
    let enosys = rustix::io::Errno::NOSYS.raw_os_error();
    let filter = json!({ "guest": {
        "mismatch_action": { "errno": enosys },
        "match_action": "allow",
        "filter": rules,
    }});
    let arch = TargetArch::try_from(arch)?;
    let mut filters = seccompiler::compile_from_json(filter.to_string().as_bytes(), arch)?;
    filters.remove("guest").ok_or_else(|| "the filter is missing".into())
}

#[cfg(test)]
mod tests {
    use super::{GUEST_POLICY, MemoryEnforcement, compile};

    #[test]
    fn the_list_is_understood_for_both_architectures() {
        for arch in ["x86_64", "aarch64"] {
            for memory in [MemoryEnforcement::Kernel, MemoryEnforcement::Agent] {
                assert!(compile(GUEST_POLICY, arch, memory).unwrap().len() > 100, "{arch}");
            }
        }
    }
}

//! Seccomp filters. The file `policy/calls.json` lists the system calls that a guest may make.
//!
//! Any other call fails with `ENOSYS`, as if the kernel did not have it, so that programs use their fallback.

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};

use super::plan::MemoryEnforcement;

const GUEST_POLICY: &str = include_str!("../../policy/calls.json");

/// The system calls that the monitor of a VM may make. None of them lets the monitor start a program or open a file.
#[cfg(target_arch = "x86_64")]
const MONITOR_POLICY: &str = include_str!("../../policy/monitor.json");

/// Compiles the allow list for guests.
pub(super) fn guest_filter(
    memory: MemoryEnforcement,
) -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    compile(GUEST_POLICY, std::env::consts::ARCH, memory)
}

/// Compiles the allow list for the monitor of a VM.
#[cfg(target_arch = "x86_64")]
pub(super) fn monitor_filter() -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    compile(MONITOR_POLICY, std::env::consts::ARCH, MemoryEnforcement::Kernel)
}

/// Compiles a filter that denies only record locks (`fcntl`). They fail with `ENOLCK`, which programs report as a
/// problem with locks.
pub(super) fn lock_filter() -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    /// `F_SETLK`, `F_SETLKW`, `F_OFD_SETLK` and `F_OFD_SETLKW`.
    const LOCK_COMMANDS: [u32; 4] = [6, 7, 37, 38];
    let rule = |command| {
        let command = json!({ "index": 1, "type": "dword", "op": "eq", "val": command });
        json!({ "syscall": "fcntl", "args": [command] })
    };
    let filter = json!({ "guest": {
        "mismatch_action": "allow",
        "match_action": { "errno": rustix::io::Errno::NOLCK.raw_os_error() },
        "filter": LOCK_COMMANDS.map(rule),
    }});
    compile_filter(&filter, std::env::consts::ARCH)
}

/// Restricts this process, and all processes that it starts, to the system calls that the filter allows.
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
    let memory_on_arch = format!("{memory}_{arch}");
    let rules = ["common", arch, memory, memory_on_arch.as_str()].map(rules_of).concat();
    let enosys = rustix::io::Errno::NOSYS.raw_os_error();
    let filter = json!({ "guest": {
        "mismatch_action": { "errno": enosys },
        "match_action": "allow",
        "filter": rules,
    }});
    compile_filter(&filter, arch)
}

fn compile_filter(
    filter: &Value,
    arch: &str,
) -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    let arch = TargetArch::try_from(arch)?;
    let mut filters = seccompiler::compile_from_json(filter.to_string().as_bytes(), arch)?;
    filters.remove("guest").ok_or_else(|| "the compiled policy contains no filter".into())
}

#[cfg(test)]
mod tests {
    use super::{GUEST_POLICY, MemoryEnforcement, compile};

    #[test]
    fn programs_create_epoll_instances_only_if_a_kernel_limits_memory() {
        let len = |memory| compile(GUEST_POLICY, "x86_64", memory).unwrap().len();
        let policy: serde_json::Value = serde_json::from_str(GUEST_POLICY).unwrap();
        for part in ["common", "x86_64", "unbounded"] {
            let rules = policy[part].as_array().unwrap();
            assert!(
                !rules.iter().any(|it| it["syscall"].as_str().unwrap().contains("epoll_create"))
            );
        }
        assert!(len(MemoryEnforcement::Kernel) > len(MemoryEnforcement::Agent));
    }

    #[test]
    fn policy_compiles_for_both_architectures() {
        for arch in ["x86_64", "aarch64"] {
            for memory in [MemoryEnforcement::Kernel, MemoryEnforcement::Agent] {
                assert!(compile(GUEST_POLICY, arch, memory).unwrap().len() > 100, "{arch}");
            }
        }
    }
}

//! The system calls that a guest may make: a list, kept as data in `policy/calls.json`.
//!
//! A call that is not on the list fails as if the kernel did not have it, so that a program takes its next best way.

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};

const POLICY: &str = include_str!("../../policy/calls.json");

/// What the monitor of a VM may call, which starts nothing and opens nothing.
#[cfg(target_arch = "x86_64")]
const MONITOR: &str = include_str!("../../policy/monitor.json");

/// The list as a program for the kernel.
pub(super) fn filter() -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    compile(POLICY, std::env::consts::ARCH)
}

/// The list of a VM's monitor as a program for the kernel.
#[cfg(target_arch = "x86_64")]
pub(super) fn monitor() -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    compile(MONITOR, std::env::consts::ARCH)
}

/// From here on this process, and all it starts, can make the listed calls only.
pub(super) fn apply(filter: &BpfProgram) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(filter)
}

fn compile(
    policy: &str,
    arch: &str,
) -> Result<BpfProgram, Box<dyn std::error::Error + Send + Sync>> {
    let policy: Value = serde_json::from_str(policy)?;
    let listed = |part: &str| policy[part].as_array().cloned().unwrap_or_default();
    let rules = [listed("common"), listed(arch)].concat();
    let no_such_call = rustix::io::Errno::NOSYS.raw_os_error();
    let filter = json!({ "guest": {
        "mismatch_action": { "errno": no_such_call },
        "match_action": "allow",
        "filter": rules,
    }});
    let arch = TargetArch::try_from(arch)?;
    let mut filters = seccompiler::compile_from_json(filter.to_string().as_bytes(), arch)?;
    filters.remove("guest").ok_or_else(|| "the filter is missing".into())
}

#[cfg(test)]
mod tests {
    use super::{POLICY, compile};

    #[test]
    fn the_list_is_understood_for_both_architectures() {
        for arch in ["x86_64", "aarch64"] {
            assert!(compile(POLICY, arch).unwrap().len() > 100, "{arch}");
        }
    }
}

//! Facts about the host that several back ends need.

use std::path::PathBuf;

/// Id of the user `nobody` and of its group.
pub(super) const NOBODY: u32 = 65_534;

pub(super) const KVM_DEVICE: &str = "/dev/kvm";

/// Searches the directories in `PATH` for a program.
pub(super) fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.is_file())
}

//! How a guest's agent closes the doors behind itself: in the jail, and in a VM, where they stand behind the VM's walls.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::{
    mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount},
    process::{DumpableBehavior, Resource, Rlimit},
    thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets},
};
use seccompiler::BpfProgram;
use serde::{Deserialize, Serialize};

use super::seccomp::{self, MemoryEnforcement};
use crate::{guest::WORKSPACE, limits::Limits};

/// What the guest's programs may use, as far as its own kernel limits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestLimits {
    processes: u32,
    files: u32,
    disk: u64,
    /// Bytes that one process may have, where nothing else limits the memory of all.
    data: Option<u64>,
}

impl GuestLimits {
    pub(super) fn new(limits: &Limits, data: Option<u64>) -> Self {
        Self { processes: limits.processes, files: limits.files, disk: limits.disk, data }
    }

    /// Who limits the memory of all of the guest's processes together.
    pub(super) fn memory_enforcement(&self) -> MemoryEnforcement {
        if self.data.is_some() { MemoryEnforcement::Agent } else { MemoryEnforcement::Kernel }
    }
}

/// How many threads the agent itself may need, beside what it runs.
const AGENT_THREADS: u32 = 8;

/// A door that could not be closed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(crate) struct ConfineError {
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// One file system for the workspace and for `/tmp`, so that one limit holds for both.
pub(super) fn mount_workspace(base: &Path, limits: &GuestLimits) -> io::Result<()> {
    let store = base.join("store");
    fs::create_dir(&store)?;
    let options = format!("mode=0755,size={},nr_inodes={}", limits.disk, limits.files);
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    mount("workspace", &store, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, &*options)?;
    for (dir, path) in [("workspace", WORKSPACE), ("tmp", "/tmp")] {
        fs::create_dir(store.join(dir))?;
        let at = path_in_root(base, Path::new(path));
        fs::create_dir_all(&at)?;
        mount_bind(store.join(dir), &at)?;
    }
    unmount(&store, UnmountFlags::DETACH)?;
    fs::remove_dir(&store)
}

/// What programs expect to find.
pub(super) fn populate_root(base: &Path) -> io::Result<()> {
    write_user_files(base)?;
    for (to, at) in [("fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout"), ("fd/2", "stderr")] {
        symlink(Path::new("/proc/self").join(to), base.join("dev").join(at))?;
    }
    symlink("/tmp", base.join("dev/shm"))
}

/// The names of the users that there are.
pub(super) fn write_user_files(base: &Path) -> io::Result<()> {
    fs::create_dir_all(base.join("etc"))?;
    let user = |name: &str, id: u32| format!("{name}:x:{id}:{id}:{name}:{WORKSPACE}:/bin/sh\n");
    fs::write(base.join("etc/passwd"), user("root", 0) + &user("nobody", 65_534))?;
    fs::write(base.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")
}

/// A path of the guest below a folder that is to be its root.
pub(super) fn path_in_root(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

/// GuestLimits this process and all it starts, and takes from them every way to more: files outside the workspace,
/// capabilities but those to be kept, which no program that is started gets, and system calls that are not listed.
pub(super) fn confine(limits: &GuestLimits, keep: CapabilitySet) -> Result<(), ConfineError> {
    confine_with_filter(limits, keep, &guest_filter(limits)?)
}

/// Like [`close`], with another list of system calls.
pub(super) fn confine_with_filter(
    limits: &GuestLimits,
    keep: CapabilitySet,
    filter: &BpfProgram,
) -> Result<(), ConfineError> {
    drop_capabilities(keep).map_err(failed_to("drop its capabilities"))?;
    apply_restrictions(limits, filter)
}

/// Like [`close`], for a process that has been left no capabilities, and so cannot drop any.
pub(super) fn confine_unprivileged(limits: &GuestLimits) -> Result<(), ConfineError> {
    let own = rustix::thread::capabilities(None).map_err(failed_to("look at its capabilities"))?;
    if !(own.permitted.is_empty() && own.inheritable.is_empty()) {
        return Err(failed_to("be without capabilities")(format!("it has {:?}", own.permitted)));
    }
    rustix::thread::set_no_new_privs(true).map_err(failed_to("give up new privileges"))?;
    apply_restrictions(limits, &guest_filter(limits)?)
}

fn guest_filter(limits: &GuestLimits) -> Result<BpfProgram, ConfineError> {
    seccomp::guest_filter(limits.memory_enforcement())
        .map_err(failed_to("read the list of system calls"))
}

fn apply_restrictions(limits: &GuestLimits, filter: &BpfProgram) -> Result<(), ConfineError> {
    set_resource_limits(limits).map_err(failed_to("bound its resources"))?;
    apply_landlock(&[WORKSPACE, "/tmp", "/dev"])
        .map_err(failed_to("restrict its files with landlock"))?;
    // What runs in the guest is the same user, and could otherwise read and write this process's memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(failed_to("hide its memory"))?;
    seccomp::apply(filter).map_err(failed_to("restrict its system calls"))
}

fn failed_to<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> ConfineError {
    move |source| ConfineError { what, source: source.into() }
}

fn set_resource_limits(limits: &GuestLimits) -> io::Result<()> {
    let mut rlimits = vec![
        (Resource::Core, 0),
        (Resource::Nofile, u64::from(limits.files)),
        (Resource::Nproc, u64::from(limits.processes.saturating_add(AGENT_THREADS))),
        (Resource::Fsize, limits.disk),
        (Resource::Memlock, 0),
    ];
    rlimits.extend(limits.data.map(|it| (Resource::Data, it)));
    for (resource, limit) in rlimits {
        let limit = rustix::process::getrlimit(resource).maximum.map_or(limit, |it| it.min(limit));
        rustix::process::setrlimit(
            resource,
            Rlimit { current: Some(limit), maximum: Some(limit) },
        )?;
    }
    Ok(())
}

/// Files may be read and run, and written in these places alone. Where the kernel is too old for a part of this, the
/// read-only mounts and the empty network stand behind it.
pub(super) fn apply_landlock(writable: &[&str]) -> Result<(), landlock::RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(writable, AccessFs::from_all(abi)))?
        .restrict_self()
        .map(drop)
}

/// Takes every other capability out of every set, and all out of what a program could ever get.
pub(super) fn drop_capabilities(keep: CapabilitySet) -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        ignore_unknown(rustix::thread::remove_capability_from_bounding_set(capability))?;
    }
    ignore_unknown(rustix::thread::clear_ambient_capability_set())?;
    ignore_unknown(rustix::thread::set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    ))?;
    // What is kept is laid down too, until the moment that it is needed in.
    let none = CapabilitySet::empty();
    let kept = CapabilitySets { effective: none, permitted: keep, inheritable: none };
    rustix::thread::set_capabilities(None, kept)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// A kernel that does not know a capability, or a way to come by some, gives none of that kind. gVisor's knows fewer
/// than Linux.
fn ignore_unknown(done: Result<(), rustix::io::Errno>) -> Result<(), rustix::io::Errno> {
    match done {
        Err(rustix::io::Errno::INVAL) => Ok(()),
        done => done,
    }
}

//! Restrictions that a guest's agent applies to itself and to everything it starts. In the jail they are the isolation
//! itself; in a VM they are a second layer inside the VM.

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
    fs::{Mode, OFlags, openat},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create,
        fsmount, fsopen, mount, mount_bind, unmount,
    },
    process::{DumpableBehavior, Resource, Rlimit},
    thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets},
};
use seccompiler::BpfProgram;

use super::{
    host::NOBODY,
    plan::{GuestLimits, MemoryEnforcement},
    seccomp,
    stage_error::StageError,
};
use crate::spec::WORKSPACE;

/// Number of OS threads that the agent itself may need, in addition to the threads of the programs that it runs.
const AGENT_THREADS: u32 = 8;

/// Maximum number of open files of one process if no kernel limits the guest's memory. Each open file can hold kernel
/// memory that is not accounted for, such as the buffer of a pipe.
const OPEN_FILES_WITHOUT_MEMORY_LIMIT: u64 = 128;

/// Maximum number of signals and timers that may be pending for all processes of the guest together.
const PENDING_SIGNALS: u64 = 1024;

/// Mounts one file system for both the workspace and `/tmp`, so that one limit applies to both.
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

/// Opens a file of `/proc`, such as `locks`, that the guest's own `/proc` does not contain. The file is opened through
/// a second `/proc` of this process namespace. That `/proc` is not attached to any directory, so no program can reach
/// it.
///
/// Fails if the kernel refuses to mount `/proc`, for example because parts of the host's `/proc` are hidden.
pub(super) fn open_proc_file(name: &str) -> io::Result<fs::File> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let proc = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(&proc, name, flags, Mode::empty())?.into())
}

/// Creates the files and links in `/etc` and `/dev` that programs expect.
pub(super) fn populate_root(base: &Path) -> io::Result<()> {
    write_user_files(base)?;
    for (to, at) in [("fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout"), ("fd/2", "stderr")] {
        symlink(Path::new("/proc/self").join(to), base.join("dev").join(at))?;
    }
    symlink("/tmp", base.join("dev/shm"))
}

/// Writes `/etc/passwd` and `/etc/group`.
pub(super) fn write_user_files(base: &Path) -> io::Result<()> {
    fs::create_dir_all(base.join("etc"))?;
    let user = |name: &str, id: u32| format!("{name}:x:{id}:{id}:{name}:{WORKSPACE}:/bin/sh\n");
    fs::write(base.join("etc/passwd"), user("root", 0) + &user("nobody", NOBODY))?;
    fs::write(base.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")
}

/// Converts a path in the guest to the corresponding path below `base`, the directory that will become the guest's
/// root.
pub(super) fn path_in_root(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

/// Restricts this process and everything it starts. Sets resource limits, forbids writing outside the workspace, `/tmp`
/// and `/dev`, drops all capabilities except `keep`, and allows only the system calls on the allow list. Programs that
/// this process starts do not inherit the capabilities in `keep`.
pub(super) fn confine(limits: &GuestLimits, keep: CapabilitySet) -> Result<(), StageError> {
    confine_with_filter(limits, keep, &guest_filter(limits)?)
}

/// Like [`confine`], but installs `filter` instead of the seccomp filter for guests.
pub(super) fn confine_with_filter(
    limits: &GuestLimits,
    keep: CapabilitySet,
    filter: &BpfProgram,
) -> Result<(), StageError> {
    drop_capabilities(keep).map_err(StageError::new("drop its capabilities"))?;
    apply_restrictions(limits, filter)
}

/// Like [`confine`], but for a process that was started without capabilities and therefore cannot drop any. Fails if
/// the process has capabilities.
pub(super) fn confine_unprivileged(limits: &GuestLimits) -> Result<(), StageError> {
    let owned =
        rustix::thread::capabilities(None).map_err(StageError::new("read its capabilities"))?;
    if !(owned.permitted.is_empty() && owned.inheritable.is_empty()) {
        return Err(StageError::new("verify that it has no capabilities")(format!(
            "it has {:?}",
            owned.permitted
        )));
    }
    rustix::thread::set_no_new_privs(true).map_err(StageError::new("set no_new_privs"))?;
    apply_restrictions(limits, &guest_filter(limits)?)
}

fn guest_filter(limits: &GuestLimits) -> Result<BpfProgram, StageError> {
    seccomp::guest_filter(limits.memory_enforcement())
        .map_err(StageError::new("compile its seccomp filter"))
}

fn apply_restrictions(limits: &GuestLimits, filter: &BpfProgram) -> Result<(), StageError> {
    set_resource_limits(limits).map_err(StageError::new("set its resource limits"))?;
    apply_landlock(&[WORKSPACE, "/tmp", "/dev"])
        .map_err(StageError::new("restrict its files with landlock"))?;
    // Programs in the guest run as the same user and could otherwise read and write this process's memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(StageError::new("protect its memory from programs in the guest"))?;
    seccomp::apply(filter).map_err(StageError::new("install its seccomp filter"))
}

fn set_resource_limits(limits: &GuestLimits) -> io::Result<()> {
    let open_files = match limits.memory_enforcement() {
        MemoryEnforcement::Kernel => u64::from(limits.files),
        MemoryEnforcement::Agent => u64::from(limits.files).min(OPEN_FILES_WITHOUT_MEMORY_LIMIT),
    };
    let mut rlimits = vec![
        (Resource::Core, 0),
        (Resource::Nofile, open_files),
        (Resource::Nproc, u64::from(limits.processes.saturating_add(AGENT_THREADS))),
        (Resource::Fsize, limits.disk),
        (Resource::Memlock, 0),
    ];
    rlimits.extend(limits.data.map(|it| (Resource::Data, it)));
    lower_rlimits(&rlimits)?;
    // gVisor's kernel refuses to set these limits. Its signals are part of the guest's memory, and it has no message
    // queues.
    match lower_rlimits(&[(Resource::Sigpending, PENDING_SIGNALS), (Resource::Msgqueue, 0)]) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// Lowers resource limits of this process. Limits that are already lower stay as they are.
pub(super) fn lower_rlimits(limits: &[(Resource, u64)]) -> io::Result<()> {
    for (resource, limit) in limits {
        let maximum = rustix::process::getrlimit(*resource).maximum;
        let limit = Some(maximum.map_or(*limit, |it| it.min(*limit)));
        rustix::process::setrlimit(*resource, Rlimit { current: limit, maximum: limit })?;
    }
    Ok(())
}

/// Allows reading and executing all files, but writing only below `writable`. Best effort: if the kernel is too old to
/// enforce some of these rules, the read-only mounts and the empty network namespace still apply.
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

/// Removes all capabilities from all sets, except that `keep` stays permitted for this process. Programs that are
/// started later cannot gain any capabilities.
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
    // Kept capabilities are permitted but not effective until they are needed.
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: keep, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Ignores errors about unknown capabilities or capability features, because a kernel that does not know them cannot
/// grant them. gVisor knows fewer of them than Linux.
fn ignore_unknown(result: Result<(), rustix::io::Errno>) -> Result<(), rustix::io::Errno> {
    match result {
        Err(rustix::io::Errno::INVAL) => Ok(()),
        result => result,
    }
}

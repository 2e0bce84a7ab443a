//! What the engine is asked for.

use std::{collections::HashMap, path::PathBuf};

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType};

use super::NAME;
use crate::{
    Error,
    backend::{confine::GuestLimits, container},
    guest::{GuestArgs, WORKSPACE},
    limits::Limits,
    spec::Spec,
};

/// The user and group that the guest is: nobody.
const NOBODY: &str = "65534:65534";

/// What of the kernel's own files is hidden: what engines hide unless they are told, and all else that says something of
/// the machine.
const MASKED_PATHS: [&str; 14] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys",
];

/// What the agent itself needs besides what it runs.
const AGENT_PROCESSES: u32 = 16;

/// A container for one guest.
pub(super) fn create_body(
    spec: &Spec,
    id: &str,
    image: String,
) -> Result<ContainerCreateBody, Error> {
    let limits = &spec.limits;
    // The kernel counts the processes of one user over all containers, so this limit is the engine's alone.
    let bounds = GuestLimits::new(&Limits { processes: u32::MAX, ..limits.clone() }, None);
    let args = GuestArgs::Contained(container::InitPlan { bounds }).to_args();
    let args = args.map_err(|error| Error::Start { backend: NAME, problem: error.to_string() })?;
    let labels = [("sandbox-vm", id), ("sandbox-vm.name", &spec.name)];
    Ok(ContainerCreateBody {
        image: Some(image),
        entrypoint: Some(vec!["/agent".to_owned()]),
        cmd: Some(args.into()),
        env: Some(Vec::new()),
        user: Some(NOBODY.to_owned()),
        working_dir: Some(WORKSPACE.to_owned()),
        hostname: Some("sandbox".to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        network_disabled: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // Its input ends with the host's connection, however that ends, and the agent with its input.
        stdin_once: Some(true),
        host_config: Some(HostConfig { mounts: mounts(spec), ..host_config(limits) }),
        ..ContainerCreateBody::default()
    })
}

/// The folders that the guest is shown.
fn mounts(spec: &Spec) -> Option<Vec<Mount>> {
    let mount = |(name, from): (&String, &PathBuf)| Mount {
        target: Some(format!("/{name}")),
        source: Some(from.display().to_string()),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        ..Mount::default()
    };
    let mounts: Vec<_> = spec.read_only_dirs.iter().map(mount).collect();
    (!mounts.is_empty()).then_some(mounts)
}

fn host_config(limits: &Limits) -> HostConfig {
    let memory = i64::try_from(limits.memory).unwrap_or(i64::MAX);
    // An engine makes two file systems of two folders, so that the limit has to be divided between them.
    let (disk, files) = (limits.disk / 4, limits.files / 4);
    let tmp = tmpfs_options(disk, files);
    let workspace = tmpfs_options(limits.disk - disk, limits.files - files);
    let strings = |it: &[&str]| Some(it.iter().map(|it| (*it).to_owned()).collect());
    HostConfig {
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        cap_drop: strings(&["ALL"]),
        security_opt: strings(&["no-new-privileges:true"]),
        masked_paths: strings(&MASKED_PATHS),
        memory: Some(memory),
        // Memory and swap together: none of the latter.
        memory_swap: Some(memory),
        nano_cpus: Some((limits.cpus * 1e9) as i64),
        pids_limit: Some(limits.processes.saturating_add(AGENT_PROCESSES).into()),
        tmpfs: Some(HashMap::from([(WORKSPACE.to_owned(), workspace), ("/tmp".to_owned(), tmp)])),
        // The channel would otherwise be written to a file of the engine's.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    }
}

/// A memory file system of so many bytes and files, as its options.
fn tmpfs_options(bytes: u64, files: u32) -> String {
    format!("rw,nosuid,nodev,exec,mode=0755,uid=65534,gid=65534,size={bytes},nr_inodes={files}")
}

//! Builds the container configuration that is sent to the engine.

use std::{collections::HashMap, path::PathBuf};

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType};

use crate::{
    Error,
    backend::{
        names::DOCKER as NAME,
        plan::{AgentPlan, GuestArgs, GuestLimits},
    },
    limits::Limits,
    spec::{Spec, WORKSPACE},
};

/// User and group that the guest runs as: `nobody` and the group of that user.
const NOBODY: &str = "65534:65534";

/// Kernel files that are hidden from the guest. These are the paths that container engines mask by default, and other
/// paths that reveal details of the machine.
const MASKED_PATHS: [&str; 14] = [
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore",
    "/proc/keys", "/proc/latency_stats", "/proc/modules", "/proc/sched_debug", "/proc/scsi",
    "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats", "/sys",
];

/// Number of processes that the agent itself needs, in addition to those of the programs that it runs.
const AGENT_PROCESSES: u32 = 16;

pub(super) fn create_body(
    spec: &Spec,
    id: &str,
    image: String,
) -> Result<ContainerCreateBody, Error> {
    let limits = &spec.limits;
    // Do not set a process limit for the agent, because the kernel would count the processes of this user in all
    // containers. The engine limits the processes of each container instead.
    let bounds = GuestLimits::new(&Limits { processes: u32::MAX, ..limits.clone() }, None);
    let args = GuestArgs::Contained(AgentPlan { bounds }).to_args();
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
        // When the host's connection ends for any reason, standard input closes, and then the agent exits.
        stdin_once: Some(true),
        host_config: Some(HostConfig { mounts: mounts(spec), ..host_config(limits) }),
        ..ContainerCreateBody::default()
    })
}

/// Returns the mounts for the host directories that the guest can see, or `None` if there are none.
fn mounts(spec: &Spec) -> Option<Vec<Mount>> {
    let mount = |(name, from): (&String, &PathBuf)| Mount {
        target: Some(format!("/{name}")),
        source: Some(from.display().to_string()),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        ..Mount::default()
    };
    let mounts: Vec<_> = spec.shared_dirs.iter().map(mount).collect();
    (!mounts.is_empty()).then_some(mounts)
}

fn host_config(limits: &Limits) -> HostConfig {
    let memory = i64::try_from(limits.memory).unwrap_or(i64::MAX);
    // An engine creates separate file systems for `/workspace` and `/tmp`, so the limit is split between the two.
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
        // The engine expects the sum of memory and swap here, so this value allows no swap.
        memory_swap: Some(memory),
        nano_cpus: Some((limits.cpus * 1e9) as i64),
        pids_limit: Some(limits.processes.saturating_add(AGENT_PROCESSES).into()),
        tmpfs: Some(HashMap::from([(WORKSPACE.to_owned(), workspace), ("/tmp".to_owned(), tmp)])),
        // Otherwise the engine would write everything that the guest sends through the channel to a log file.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    }
}

/// Returns the mount options of a memory file system with these limits.
fn tmpfs_options(bytes: u64, files: u32) -> String {
    format!("rw,nosuid,nodev,exec,mode=0755,uid=65534,gid=65534,size={bytes},nr_inodes={files}")
}

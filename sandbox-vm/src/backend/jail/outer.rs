//! The outer stage. It becomes the user `nobody` if it was started by root, creates the namespaces, and starts the
//! guest in them.

use std::{
    fs,
    io::{self, Write},
    process::{Command, Stdio},
};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    event::{PollFd, PollFlags},
    process::{DumpableBehavior, Gid, Pid, PidfdFlags, Uid, pidfd_open},
};

use crate::{
    backend::{
        host::NOBODY,
        plan::{GuestArgs, OuterPlan},
        stage_error::StageError,
    },
    sys,
};

/// Word that precedes the guest's process id in the line that [`outer`] writes to the lifeline.
pub(super) const GUEST_TAG: &str = "guest";

/// Maximum number of inotify instances of one guest. The kernel allows a user 128 by default.
const INOTIFY_INSTANCES: u32 = 16;

/// Maximum number of files that one guest watches with inotify.
const INOTIFY_WATCHES: u32 = 8192;

/// Creates the namespaces, starts the guest, and waits until the guest ends.
///
/// Standard input is the channel, which is passed on to the guest. Standard output is the *lifeline*. This stage writes
/// the guest's process id to it. When the host process ends, the other end of the lifeline closes, and this stage then
/// ends the guest.
pub(crate) fn outer(plan: &OuterPlan) -> Result<(), StageError> {
    // Leave the session of the host, so that the guest has no controlling terminal: a program could type commands
    // into it, and the terminal's signals would reach the guest.
    rustix::process::setsid().map_err(StageError::new("leave its host's session"))?;
    sys::set_cloexec_from(3)
        .map_err(StageError::new("mark its file descriptors as close-on-exec"))?;
    for file in &plan.cgroup_files {
        let what = format!("join the control group through `{}`", file.display());
        fs::write(file, "0").map_err(StageError::new(what))?;
    }
    // Open the device while this process still has permission to do so, and before the process enters namespaces in
    // which the device may not exist.
    let device = plan.next.device().map(|it| fs::File::options().read(true).write(true).open(it));
    let device = device.transpose().map_err(StageError::new("open the guest's device"))?;
    become_nobody(plan.next.device_group())
        .map_err(StageError::new("become an unprivileged user"))?;
    enter_namespaces()?;
    let mut guest = start(&plan.next, device).map_err(StageError::new("start the guest"))?;
    report_guest_pid(guest.id()).map_err(StageError::new("report the guest's process id"))?;
    wait_for_guest(guest.id()).map_err(StageError::new("watch the guest"))?;
    let status = guest.wait().map_err(StageError::new("wait for the guest"))?;
    match status.success() {
        true => Ok(()),
        false => Err(StageError::new("keep the guest running")(format!("it ended with {status}"))),
    }
}

/// Switches to the user `nobody` if this process runs as root, so that the process has no privileges when it starts to
/// set up the guest. Keeps only the group that may use the guest's device. Does nothing if this process runs as another
/// user.
fn become_nobody(device_group: Option<Gid>) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(device_group.as_slice())?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // A process that changes its user loses ownership of its files in /proc; the next step writes to one of them.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    Ok(())
}

fn enter_namespaces() -> Result<(), StageError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let all = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(all).map_err(StageError::new("create its namespaces"))?;
    let write = |file: &str, text: String| {
        fs::write(file, text).map_err(StageError::new(format!("write {file}")))
    };
    // The namespace has a single user, which is root inside it and this unprivileged user outside.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {user} 1"))?;
    write("/proc/self/gid_map", format!("0 {group} 1"))?;
    // The kernel counts inotify instances and watches of all processes of the user together. Without these limits, one
    // guest could take all of them. Best effort, because a container may hide these files.
    let _ = fs::write("/proc/sys/user/max_inotify_instances", INOTIFY_INSTANCES.to_string());
    let _ = fs::write("/proc/sys/user/max_inotify_watches", INOTIFY_WATCHES.to_string());
    Ok(())
}

/// Starts the guest. The first process started after `unshare` becomes process 1 of the new process namespace.
fn start(next: &GuestArgs, device: Option<fs::File>) -> io::Result<std::process::Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(next.to_args()?);
    let stdout = device.map_or_else(Stdio::null, Stdio::from);
    command.env_clear().stdin(Stdio::inherit()).stdout(stdout).stderr(Stdio::inherit());
    // Open `/dev/null` before the guest starts. The guest's `pivot_root` also moves this process to the new root,
    // because both share a mount namespace, and the file may not exist there.
    let null = fs::File::open("/dev/null")?;
    let guest = command.spawn()?;
    // Close this process's copy of the channel, so that the host sees the channel close when the guest ends.
    rustix::stdio::dup2_stdin(&null)?;
    Ok(guest)
}

fn report_guest_pid(guest: u32) -> io::Result<()> {
    let mut lifeline = io::stdout().lock();
    // The tag lets the host distinguish this line from the output of a program that does not call `guest::enter`.
    writeln!(lifeline, "{GUEST_TAG} {guest}")?;
    lifeline.flush()
}

/// Returns once the guest has ended. If the other end of the lifeline closes, this process exits immediately. The
/// kernel then kills the guest, because the guest has asked to be killed when its parent ends.
fn wait_for_guest(guest: u32) -> io::Result<()> {
    let guest =
        i32::try_from(guest).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let guest = pidfd_open(guest, PidfdFlags::empty())?;
    let lifeline = io::stdout();
    loop {
        let mut watched =
            [PollFd::new(&guest, PollFlags::IN), PollFd::new(&lifeline, PollFlags::empty())];
        match rustix::event::poll(&mut watched, None) {
            Ok(_) if !watched[1].revents().is_empty() => std::process::exit(1),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

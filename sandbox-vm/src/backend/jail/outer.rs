//! The outer stage: becomes nobody, makes the namespaces, and starts the guest in them.

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

use super::{OuterPlan, StageError};
use crate::{guest::GuestArgs, sys};

/// The user and group that root becomes: nobody.
const NOBODY: u32 = 65534;

/// The word before the guest's process id on the lifeline.
pub(super) const GUEST_TAG: &str = "guest";

/// Makes the namespaces, starts the guest, and stays with it until it ends.
///
/// Standard input is the channel, which goes on to the guest. Standard output is the lifeline: the guest's process id
/// goes out on it, and when its other end closes, because the host is no more, the guest ends.
pub fn outer(plan: &OuterPlan) -> Result<(), StageError> {
    sys::set_cloexec_from(3).map_err(StageError::new("keep its descriptors to itself"))?;
    for file in &plan.cgroup_files {
        let what = format!("join the control group {}", file.display());
        fs::write(file, "0").map_err(StageError::new(what))?;
    }
    // Opened while this process may still open it, and before there are namespaces in which it may not be there.
    let device = plan.next.device().map(|it| fs::File::options().read(true).write(true).open(it));
    let device = device.transpose().map_err(StageError::new("open the device of the guest"))?;
    become_nobody(plan.next.device_group())
        .map_err(StageError::new("become an unprivileged user"))?;
    enter_namespaces()?;
    let mut guest = start(&plan.next, device).map_err(StageError::new("start the guest"))?;
    report_guest_pid(guest.id()).map_err(StageError::new("say that the guest has started"))?;
    wait_for_guest(guest.id()).map_err(StageError::new("watch over the guest"))?;
    let status = guest.wait().map_err(StageError::new("wait for the guest"))?;
    match status.success() {
        true => Ok(()),
        false => Err(StageError::new("keep the guest alive")(format!("it ended with {status}"))),
    }
}

/// Root gives up all it has before it does anything for the guest, but for a group of a device; anybody else stays who
/// they are.
fn become_nobody(device_group: Option<Gid>) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(device_group.as_slice())?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // Whoever changes their user loses the files in /proc that describe them; the next step writes one.
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
    unshare(all).map_err(StageError::new("make namespaces of its own"))?;
    let write = |file: &str, text: String| {
        fs::write(file, text).map_err(StageError::new(format!("write {file}")))
    };
    // One user inside, called root there, who is nobody outside.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {user} 1"))?;
    write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// The first process that is started now is process 1 of the new namespace.
fn start(next: &GuestArgs, device: Option<fs::File>) -> io::Result<std::process::Child> {
    let mut command = Command::new("/proc/self/exe");
    next.apply(&mut command)?;
    let stdout = device.map_or_else(Stdio::null, Stdio::from);
    command.env_clear().stdin(Stdio::inherit()).stdout(stdout).stderr(Stdio::inherit());
    // Opened now: when the guest moves into its root, so does this process, and there may be no such file.
    let null = fs::File::open("/dev/null")?;
    let guest = command.spawn()?;
    // The channel is the guest's alone: the host is to see it close with the guest.
    rustix::stdio::dup2_stdin(&null)?;
    Ok(guest)
}

fn report_guest_pid(guest: u32) -> io::Result<()> {
    let mut lifeline = io::stdout().lock();
    // By the word in front the host knows that a guest says this, and no program that knows nothing of guests.
    writeln!(lifeline, "{GUEST_TAG} {guest}")?;
    lifeline.flush()
}

/// Returns once the guest has ended. If nobody holds the other end of the lifeline any more, this process ends at once,
/// and the guest with it, which dies with its parent.
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

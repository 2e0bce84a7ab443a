//! Attempts to escape from a guest. A program makes them with `sandbox-vm-hostile try`, and a graph makes them in the
//! agent's own process.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    os::{linux::net::SocketAddrExt, unix::net::UnixStream},
    path::Path,
    process::Command,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType},
    process::{Resource, Rlimit},
};

use crate::{check::PROGRAM, kernel_memory, raw_calls, shared_memory::allocate_shared_memory};

/// Upper bound for process ids in a guest. A process with a larger id belongs to the host.
pub(crate) const MAX_GUEST_PID: u32 = 1000;

/// Number of bytes that a program allocates to exceed its memory limit.
const TOTAL_BYTES: usize = 512 << 20;

/// Number of bytes in each allocation.
const CHUNK_BYTES: usize = 4 << 20;

/// Result of an attempt to escape.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    Blocked(io::Error),
    /// The attempt failed for a reason other than isolation, and therefore proves nothing.
    Inconclusive(io::Error),
    Succeeded,
}

/// Makes the attempt whose name and arguments are in `args`.
pub(crate) fn run(args: &[&str]) -> AttemptOutcome {
    match attempt(args) {
        Err(error) if is_denial(&error) => AttemptOutcome::Blocked(error),
        Err(error) => AttemptOutcome::Inconclusive(error),
        Ok(()) => AttemptOutcome::Succeeded,
    }
}

/// Makes several attempts, and describes those that were not blocked.
pub(crate) fn failures(attempts: &[Vec<String>]) -> Vec<String> {
    let failure = |attempt: &Vec<String>| {
        let args: Vec<&str> = attempt.iter().map(String::as_str).collect();
        match run(&args) {
            AttemptOutcome::Blocked(_) => None,
            outcome => Some(format!("{attempt:?}: {outcome:?}")),
        }
    };
    attempts.iter().filter_map(failure).collect()
}

fn attempt(args: &[&str]) -> io::Result<()> {
    match args {
        ["tcp", address] => tcp(address),
        ["udp", address] => udp(address),
        ["unix", path] => UnixStream::connect(path).map(drop),
        ["abstract", name] => abstract_socket(name),
        ["socket", family] => socket(family),
        ["open", path] => fs::File::open(path).map(drop),
        ["read", path] => fs::read(path).and_then(|it| non_empty(it.first())),
        ["variable", name] => find_init_variable(name),
        ["processes"] => find_host_process(),
        ["list", path] => fs::read_dir(path).and_then(|mut it| non_empty(it.next())),
        ["write", path] => {
            fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).map(drop)
        }
        ["signal", pid] => signal(pid),
        ["ptrace", pid] => trace(pid),
        ["mount"] => mount(),
        ["unmount"] => unmount(),
        ["module"] => module(),
        ["namespace"] => namespace(),
        ["device"] => device(),
        ["other-user"] => other_user(),
        ["reboot"] => reboot(),
        ["host-name"] => host_name(),
        ["link-out", path] => link_out(path),
        ["shared-memory", of] => shared_memory(of),
        ["memory-files"] => memory_files(),
        ["kernel-memory", kind] => kernel_memory::exhaust(PROGRAM, kind),
        ["clock"] => set_clock(),
        ["calls", group] => raw_calls::make_all(group),
        ["terminal-input", request] => raw_calls::request_of_terminal(request),
        ["terminal"] => find_terminal(),
        ["32-bit-call"] => make_32_bit_call(),
        ["agent", what] => weaken_agent(what),
        ["lease"] => raw_calls::lease(&own_file()?),
        ["delegation"] => raw_calls::delegation(&own_file()?),
        _ => Err(io::Error::other(format!("unknown attempt: {args:?}"))),
    }
}

/// Returns whether isolation explains an error: the operation is not permitted or not supported, or the object does not
/// exist.
fn is_denial(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, NetworkUnreachable, NotFound, PermissionDenied, ReadOnlyFilesystem,
        Unsupported,
    };
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let no_such = [Errno::SRCH, Errno::AFNOSUPPORT, Errno::NODEV, Errno::NXIO];
    errno.is_some_and(|it| no_such.contains(&it))
        || matches!(
            error.kind(),
            ConnectionRefused
                | NetworkUnreachable
                | NotFound
                | PermissionDenied
                | ReadOnlyFilesystem
                | Unsupported
        )
}

/// Returns an error if a file or directory is empty (`None`). The attempt then counts as blocked, because an empty
/// replacement for a hidden file reveals nothing.
fn non_empty<T>(found: Option<T>) -> io::Result<()> {
    found.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn shared_memory(of: &str) -> io::Result<()> {
    let file = match of {
        "zero" => Some(fs::File::options().read(true).write(true).open("/dev/zero")?),
        _ => None,
    };
    for _ in 0..TOTAL_BYTES / CHUNK_BYTES {
        allocate_shared_memory(file.as_ref(), CHUNK_BYTES)?;
    }
    wait_for_sampling();
    Ok(())
}

/// Fills in-memory files that no process has mapped.
fn memory_files() -> io::Result<()> {
    let piece = vec![1; CHUNK_BYTES];
    let mut files = Vec::new();
    for _ in 0..TOTAL_BYTES / CHUNK_BYTES {
        let file = rustix::fs::memfd_create("piece", rustix::fs::MemfdFlags::empty())?;
        let mut file = fs::File::from(file);
        file.write_all(&piece)?;
        files.push(file);
    }
    wait_for_sampling();
    Ok(())
}

/// Waits long enough for the agent to sample the memory usage and to end this program, even on a busy machine.
fn wait_for_sampling() {
    std::thread::sleep(Duration::from_secs(300));
}

fn set_clock() -> io::Result<()> {
    let clock = rustix::time::ClockId::Realtime;
    Ok(rustix::time::clock_settime(clock, rustix::time::clock_gettime(clock))?)
}

fn tcp(address: &str) -> io::Result<()> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    TcpStream::connect_timeout(&address, Duration::from_secs(2)).map(drop)
}

fn udp(address: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.send_to(b"hello", address).map(drop)
}

fn abstract_socket(name: &str) -> io::Result<()> {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    UnixStream::connect_addr(&address).map(drop)
}

fn socket(family: &str) -> io::Result<()> {
    let (family, kind) = match family {
        "inet" => (AddressFamily::INET, SocketType::STREAM),
        "inet6" => (AddressFamily::INET6, SocketType::DGRAM),
        "raw" => (AddressFamily::INET, SocketType::RAW),
        "packet" => (AddressFamily::PACKET, SocketType::RAW),
        "netlink" => (AddressFamily::NETLINK, SocketType::RAW),
        "vsock" => (AddressFamily::VSOCK, SocketType::STREAM),
        "bluetooth" => (AddressFamily::BLUETOOTH, SocketType::RAW),
        _ => return Err(io::Error::other("unknown socket family")),
    };
    rustix::net::socket(family, kind, None)?;
    Ok(())
}

fn pid(text: &str) -> io::Result<i32> {
    text.parse().map_err(io::Error::other)
}

fn signal(process: &str) -> io::Result<()> {
    let process =
        rustix::process::Pid::from_raw(pid(process)?).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::test_kill_process(process)?)
}

fn trace(process: &str) -> io::Result<()> {
    Ok(nix::sys::ptrace::attach(nix::unistd::Pid::from_raw(pid(process)?))?)
}

/// Looks for a process of the host. Its id would be larger than any id in a guest.
fn find_host_process() -> io::Result<()> {
    for entry in fs::read_dir("/proc")? {
        let id = entry?.file_name().to_string_lossy().parse::<u32>();
        if id.is_ok_and(|it| it > MAX_GUEST_PID) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Looks for an environment variable of the host in the environment of the guest's first process.
fn find_init_variable(name: &str) -> io::Result<()> {
    let variables = fs::read("/proc/1/environ")?;
    let prefix = format!("{name}=");
    let found = variables.split(|it| *it == 0).any(|it| it.starts_with(prefix.as_bytes()));
    if found { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn mount() -> io::Result<()> {
    let none = rustix::mount::MountFlags::empty();
    Ok(rustix::mount::mount("x", "/tmp", "tmpfs", none, c"")?)
}

fn unmount() -> io::Result<()> {
    Ok(rustix::mount::unmount("/proc", rustix::mount::UnmountFlags::DETACH)?)
}

fn module() -> io::Result<()> {
    Ok(rustix::system::init_module(&[0; 64], c"")?)
}

fn other_user() -> io::Result<()> {
    Ok(rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(1))?)
}

fn reboot() -> io::Result<()> {
    Ok(rustix::system::reboot(rustix::system::RebootCommand::CadOff)?)
}

fn host_name() -> io::Result<()> {
    Ok(rustix::system::sethostname(b"owned")?)
}

fn namespace() -> io::Result<()> {
    Ok(nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?)
}

fn device() -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    Ok(mknodat(CWD, Path::new("disk"), FileType::BlockDevice, Mode::from(0o600), makedev(8, 0))?)
}

/// Creates a file and opens it for reading. The kernel refuses leases on files of other users and on files that are
/// open for writing.
fn own_file() -> io::Result<fs::File> {
    fs::write("own-file", "x")?;
    fs::File::open("own-file")
}

/// Creates links to host files at paths where the host will look for the guest's files.
fn link_out(path: &str) -> io::Result<()> {
    let mut text = String::new();
    for (name, target) in [("link", path), ("root", "/"), ("up", "../../../../..")] {
        let _ = fs::remove_file(name);
        std::os::unix::fs::symlink(target, name)?;
    }
    // When the guest itself opens the link, the link must not lead to the host's file either.
    fs::File::open("link")?.read_to_string(&mut text)?;
    if text.contains("secret of the host") { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Looks for a terminal that controls this process: one that it can open, or one in the kernel's record of the process.
fn find_terminal() -> io::Result<()> {
    if fs::File::open("/dev/tty").is_ok() {
        return Ok(());
    }
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map(|it| it.1).unwrap_or_default();
    // The field after the state, the parent, the group and the session is the number of the terminal, or zero.
    match fields.split_ascii_whitespace().nth(4) {
        Some("0") => Err(io::ErrorKind::NotFound.into()),
        Some(_) => Ok(()),
        None => Err(io::Error::other("the kernel does not report the terminal of this process")),
    }
}

/// Starts a process that makes a system call as a 32-bit program does. The filter of system calls kills such a process.
fn make_32_bit_call() -> io::Result<()> {
    let status = Command::new(PROGRAM).arg("32-bit-call").status()?;
    if status.success() { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Takes resources from the agent, which runs as the same user, so that the agent can no longer measure and end
/// programs.
fn weaken_agent(what: &str) -> io::Result<()> {
    let agent = Some(rustix::process::Pid::INIT);
    match what {
        "open-files" => {
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            rustix::process::prlimit(agent, Resource::Nofile, none)?;
        }
        "priority" => rustix::process::setpriority_process(agent, 19)?,
        "priority-of-thread" => {
            rustix::process::setpriority_process(Some(second_thread_of_agent()?), 19)?;
        }
        "priority-of-user" => {
            rustix::process::setpriority_user(rustix::process::getuid(), 19)?;
        }
        "processors" => {
            let mut first = rustix::thread::CpuSet::new();
            first.set(0);
            rustix::thread::sched_setaffinity(agent, &first)?;
        }
        _ => return Err(io::Error::other("unknown resource")),
    }
    Ok(())
}

/// Returns the id of a thread of the agent that is not its main thread.
fn second_thread_of_agent() -> io::Result<rustix::process::Pid> {
    for entry in fs::read_dir("/proc/1/task")? {
        let id = entry?.file_name().to_string_lossy().parse::<i32>().ok();
        let thread = id.and_then(rustix::process::Pid::from_raw);
        if let Some(thread) = thread.filter(|it| *it != rustix::process::Pid::INIT) {
            return Ok(thread);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

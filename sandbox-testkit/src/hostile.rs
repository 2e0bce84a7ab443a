//! Programs that attempt to escape from a guest, and helper programs for the suite.
//!
//! `sandbox-vm-hostile try NAME` exits with code 0 if the attempt was blocked, with [`ATTEMPT_SUCCEEDED`] if it was
//! not, and with [`ATTEMPT_INCONCLUSIVE`] if it failed for an unrelated reason.

#![expect(clippy::print_stdout, reason = "the suite reads the output of these programs")]

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    os::{linux::net::SocketAddrExt, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant, SystemTime},
};

use rustix::net::{AddressFamily, SocketType};

use crate::{check::PROGRAM, host, kernel_memory, shared_memory::allocate_shared_memory};

/// Exit code for an attempt that was not blocked.
pub const ATTEMPT_SUCCEEDED: u8 = 77;

/// Exit code for an attempt that failed for a reason other than isolation, and therefore proves nothing.
pub const ATTEMPT_INCONCLUSIVE: u8 = 78;

/// Upper bound for process ids in a guest. A process with a larger id belongs to the host.
pub(crate) const MAX_GUEST_PID: u32 = 1000;

/// Number of bytes that a program allocates to exceed its memory limit.
const TOTAL_BYTES: usize = 512 << 20;

/// Number of bytes in each allocation.
const CHUNK_BYTES: usize = 4 << 20;

/// Runs the program selected by the arguments.
pub fn main(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["say", out, error] => print(out, error),
        ["exit", code] => return ExitCode::from(code.parse::<u8>().unwrap_or(1)),
        ["cat"] => cat(),
        ["environment"] => environment(),
        ["status"] => status(),
        ["network"] => network(),
        ["sleep"] => sleep(),
        ["clock-and-random"] => clock_and_random(),
        ["spin"] => spin(),
        ["leave-a-child"] => leave_a_child(),
        ["leave-a-session", program] => start_session(program).map(drop),
        ["in-other-session", program] => {
            let status = start_session(program).and_then(|mut it| it.wait());
            status.and_then(|it| it.success().then_some(()).ok_or(io::ErrorKind::Other.into()))
        }
        ["as-session-leader", program] => lead_session(program),
        ["other-processes"] => other_processes(),
        ["orphans", count] => orphans(count.parse().unwrap_or(1)),
        ["fork-bomb"] => fork_bomb(),
        ["eat-memory"] => eat_memory(),
        ["fill-disk"] => fill_disk(),
        ["long-file"] => long_file(),
        ["fill-files"] => fill_files(),
        ["open-files"] => open_files(),
        ["endless-output"] => endless_output(),
        ["hold", kind] => kernel_memory::hold(kind),
        ["try", name, rest @ ..] => return attempt(name, rest),
        ["host", backend, count, state] => {
            host::run(backend, count.parse().unwrap_or(1), Path::new(state))
        }
        _ => Err(io::Error::other(format!("unknown arguments: {args:?}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(out: &str, error: &str) -> io::Result<()> {
    io::stdout().write_all(out.as_bytes())?;
    io::stderr().write_all(error.as_bytes())
}

fn cat() -> io::Result<()> {
    io::copy(&mut io::stdin(), &mut io::stdout()).map(drop)
}

fn environment() -> io::Result<()> {
    let mut out = io::stdout();
    for (key, value) in std::env::vars() {
        writeln!(out, "{key}={value}")?;
    }
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        writeln!(
            out,
            "fd {} {}",
            entry.file_name().display(),
            fs::read_link(entry.path())?.display()
        )?;
    }
    Ok(())
}

/// Prints the kernel's status report for this process. The `no_new_privs` flag is read with a system call, because
/// gVisor's kernel does not print it in `/proc/self/status`.
fn status() -> io::Result<()> {
    let text = fs::read_to_string("/proc/self/status")?;
    let no_new_privs = u8::from(rustix::thread::no_new_privs()?);
    print(&format!("{text}no new privileges:\t{no_new_privs}\n"), "")
}

/// Prints the time in seconds and a random number.
fn clock_and_random() -> io::Result<()> {
    let mut random = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    print(&format!("{} {:032x}", now.as_secs_f64(), u128::from_ne_bytes(random)), "")
}

fn sleep() -> io::Result<()> {
    std::thread::sleep(Duration::from_secs(1000));
    Ok(())
}

fn spin() -> io::Result<()> {
    loop {
        std::hint::spin_loop();
    }
}

fn own_path() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PROGRAM.into())
}

fn spawn_self(args: &[&str]) -> io::Result<Child> {
    Command::new(own_path()).args(args).spawn()
}

/// Starts a process that keeps the standard output open, and exits without waiting for it.
fn leave_a_child() -> io::Result<()> {
    spawn_self(&["sleep"]).map(drop)
}

/// Starts one of the programs of this module in a session of its own. Returns when it has left the session of this process.
fn start_session(program: &str) -> io::Result<Child> {
    let mut command = Command::new(own_path());
    let mut child = command.args(["as-session-leader", program]).stdout(Stdio::piped()).spawn()?;
    let mut mark = [0];
    child.stdout.take().map_or(Ok(()), |mut it| it.read_exact(&mut mark))?;
    Ok(child)
}

/// Leaves the session and the process group, prints a character, and becomes another program.
fn lead_session(program: &str) -> io::Result<()> {
    rustix::process::setsid()?;
    print("!", "")?;
    io::stdout().flush()?;
    match program {
        "sleep" => sleep(),
        "spin" => spin(),
        "eat-memory" => eat_memory(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Waits until this process sees no process but itself and process 1, at most ten seconds, and prints how many it sees.
/// Killed processes take a moment to disappear.
fn other_processes() -> io::Result<()> {
    let own = std::process::id();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut others = 0;
        for entry in fs::read_dir("/proc")? {
            let pid = entry?.file_name().to_string_lossy().parse::<u32>();
            others += u32::from(pid.is_ok_and(|it| it != 1 && it != own && has_memory(it)));
        }
        if others == 0 || Instant::now() > deadline {
            return print(&others.to_string(), "");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns whether a process has memory of its own, unlike kernel threads and processes that have just ended.
fn has_memory(pid: u32) -> bool {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    !statm.is_empty() && !statm.starts_with("0 ")
}

/// Starts processes that exit only after this program has exited.
fn orphans(count: u32) -> io::Result<()> {
    for _ in 0..count {
        spawn_self(&["exit", "0"])?;
    }
    Ok(())
}

fn fork_bomb() -> io::Result<()> {
    loop {
        if spawn_self(&["fork-bomb"]).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn eat_memory() -> io::Result<()> {
    let mut allocated = Vec::new();
    loop {
        // Write to the pages, because the kernel allocates a page only on the first write.
        allocated.push(vec![1u8; 1 << 20]);
        std::hint::black_box(&allocated);
    }
}

fn fill_disk() -> io::Result<()> {
    let block = vec![1u8; 1 << 20];
    for number in 0.. {
        let mut file = fs::File::create(format!("block-{number}"))?;
        for _ in 0..4 {
            file.write_all(&block)?;
        }
    }
    Ok(())
}

/// Creates a sparse file whose length exceeds the disk limit but which takes no space.
fn long_file() -> io::Result<()> {
    fs::File::create("long")?.set_len(1 << 40)
}

fn fill_files() -> io::Result<()> {
    for number in 0.. {
        fs::write(format!("file-{number}"), "")?;
    }
    Ok(())
}

/// Opens one file until no more can be opened.
fn open_files() -> io::Result<()> {
    let mut open = Vec::new();
    loop {
        open.push(fs::File::open("/dev/null")?);
    }
}

fn endless_output() -> io::Result<()> {
    let block = vec![b'x'; 64 << 10];
    loop {
        io::stdout().write_all(&block)?;
    }
}

/// Returns an error if a file or directory is empty (`None`). The attempt then counts as blocked, because an empty
/// replacement for a hidden file reveals nothing.
fn non_empty<T>(found: Option<T>) -> io::Result<()> {
    found.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn attempt(name: &str, rest: &[&str]) -> ExitCode {
    let outcome = match (name, rest) {
        ("tcp", [address]) => tcp(address),
        ("udp", [address]) => udp(address),
        ("unix", [path]) => UnixStream::connect(path).map(drop),
        ("abstract", [name]) => abstract_socket(name),
        ("socket", [family]) => socket(family),
        ("open", [path]) => fs::File::open(path).map(drop),
        ("read", [path]) => fs::read(path).and_then(|it| non_empty(it.first())),
        ("variable", [name]) => find_init_variable(name),
        ("processes", []) => find_host_process(),
        ("list", [path]) => fs::read_dir(path).and_then(|mut it| non_empty(it.next())),
        ("write", [path]) => {
            fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).map(drop)
        }
        ("signal", [pid]) => signal(pid),
        ("ptrace", [pid]) => trace(pid),
        ("mount", []) => mount(),
        ("unmount", []) => unmount(),
        ("module", []) => module(),
        ("namespace", []) => namespace(),
        ("device", []) => device(),
        ("other-user", []) => other_user(),
        ("reboot", []) => reboot(),
        ("host-name", []) => host_name(),
        ("link-out", [path]) => link_out(path),
        ("shared-memory", [of]) => shared_memory(of),
        ("memory-files", []) => memory_files(),
        ("kernel-memory", [kind]) => kernel_memory::exhaust(PROGRAM, kind),
        ("clock", []) => set_clock(),
        _ => return ExitCode::FAILURE,
    };
    report(outcome)
}

fn report(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Err(error) if is_denial(&error) => {
            println!("blocked: {error}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("unexpected error, the attempt proves nothing: {error} ({:?})", error.kind());
            ExitCode::from(ATTEMPT_INCONCLUSIVE)
        }
        Ok(()) => {
            println!("the attempt succeeded");
            ExitCode::from(ATTEMPT_SUCCEEDED)
        }
    }
}

/// Returns whether isolation explains an error: the operation is not permitted or not supported, or the object does not
/// exist.
fn is_denial(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, NetworkUnreachable, NotFound, PermissionDenied, ReadOnlyFilesystem,
        Unsupported,
    };
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let no_such = [rustix::io::Errno::SRCH, rustix::io::Errno::AFNOSUPPORT];
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

/// Prints the network namespace of this process.
fn network() -> io::Result<()> {
    print(&fs::read_link("/proc/self/ns/net")?.display().to_string(), "")
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

/// Waits long enough for the agent to sample the memory usage.
fn wait_for_sampling() {
    std::thread::sleep(Duration::from_secs(2));
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

/// Creates links to host files in places where the host will look for the guest's files.
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

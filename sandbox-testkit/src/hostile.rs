//! Programs that attempt to escape from a guest, and helper programs for the suite.
//!
//! `sandbox-vm-hostile try NAME` exits with code 0 if the attempt was blocked, with [`ATTEMPT_SUCCEEDED`] if it was
//! not, and with [`ATTEMPT_INCONCLUSIVE`] if it failed for an unrelated reason. `sandbox-vm-hostile try-all LIST` makes
//! several attempts in one process, because starting a process takes long in some back ends.

#![expect(clippy::print_stdout, reason = "the suite reads the output of these programs")]

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    attempts::{self, AttemptOutcome},
    check::PROGRAM,
    host, kernel_memory, raw_calls,
};

/// Exit code for an attempt that was not blocked.
pub const ATTEMPT_SUCCEEDED: u8 = 77;

/// Exit code for an attempt that failed for a reason other than isolation, and therefore proves nothing.
pub const ATTEMPT_INCONCLUSIVE: u8 = 78;

/// Kinds of namespaces that a guest without its own kernel shares with no other process of the host.
pub(crate) const NAMESPACES: [&str; 5] = ["ipc", "mnt", "net", "pid", "uts"];

/// Runs the program selected by the arguments.
pub fn main(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["say", out, error] => print(out, error),
        ["exit", code] => return ExitCode::from(code.parse::<u8>().unwrap_or(1)),
        ["cat"] => cat(),
        ["environment"] => environment(),
        ["status"] => status(),
        ["namespaces"] => namespaces(),
        ["sleep"] => sleep(),
        ["clock-and-random"] => clock_and_random(),
        ["spin"] => spin(),
        ["spin-briefly"] => spin_briefly(),
        ["calculate", rounds] => calculate(rounds.parse().unwrap_or(0)),
        ["spin-in-unwaited-children"] => spin_in_unwaited_children(),
        ["leave-a-child"] => leave_a_child(),
        ["leave-a-session", program] => start_session(program).map(drop),
        ["in-other-session", program] => {
            let status = start_session(program).and_then(|mut it| it.wait());
            status.and_then(|it| it.success().then_some(()).ok_or(io::ErrorKind::Other.into()))
        }
        ["as-session-leader", program] => lead_session(program),
        ["under-odd-name", program] => rename_to_odd_name().and_then(|()| exhaust(program)),
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
        ["32-bit-call"] => raw_calls::call_as_32_bit_program(),
        ["inotify-instances"] => inotify_instances(),
        ["survive-a-memory-kill"] => survive_a_memory_kill(),
        ["try", attempt @ ..] => return report(&attempts::run(attempt)),
        ["try-all", list] => try_all(list),
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

/// Uses the processor for a tenth of a second.
fn spin_briefly() -> io::Result<()> {
    let end = Instant::now() + Duration::from_millis(100);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Makes a fixed number of calculations, and prints the used CPU time in seconds.
fn calculate(rounds: u64) -> io::Result<()> {
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(round));
    }
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used = Duration::try_from(used).unwrap_or_default();
    print(&used.as_secs_f64().to_string(), "")
}

/// Uses the processor in one short-lived child after the other. The kernel adds their CPU time to no other process.
fn spin_in_unwaited_children() -> io::Result<()> {
    raw_calls::ignore_exits_of_children()?;
    loop {
        // The call returns an error when the child has ended.
        let _ = spawn_self(&["spin-briefly"])?.wait();
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

/// Starts one of the programs of this module in a separate session. Returns when the program has left the session of
/// this process.
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
    exhaust(program)
}

/// Runs one of the programs of this module that never end by themselves.
fn exhaust(program: &str) -> io::Result<()> {
    match program {
        "sleep" => sleep(),
        "spin" => spin(),
        "eat-memory" => eat_memory(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Gives this process a name that is not valid UTF-8 and imitates a line of `/proc/PID/status`.
fn rename_to_odd_name() -> io::Result<()> {
    Ok(rustix::thread::set_name(c"\xff\nRssAnon:0 kB")?)
}

/// Waits until this process sees no process but itself and process 1. Killed processes take a moment to disappear.
fn other_processes() -> io::Result<()> {
    let own = std::process::id();
    loop {
        let mut others = 0;
        for entry in fs::read_dir("/proc")? {
            let pid = entry?.file_name().to_string_lossy().parse::<u32>();
            others += u32::from(pid.is_ok_and(|it| it != 1 && it != own && has_memory(it)));
        }
        if others == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns whether a process has an address space, unlike kernel threads and processes that have just ended.
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

/// Allocates more memory than the suite's guests may use, and holds it. The amount is limited, because on a busy
/// machine the agent may detect late that the limit is exceeded.
fn eat_memory() -> io::Result<()> {
    let mut allocated = Vec::new();
    while allocated.len() < 1024 {
        // Write to the pages, because the kernel allocates a page only on the first write.
        allocated.push(vec![1u8; 1 << 20]);
        std::hint::black_box(&allocated);
    }
    sleep()
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

/// Opens the same file repeatedly, until the limit on open files is reached.
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
/// Prints the namespaces of this process, one per line.
fn namespaces() -> io::Result<()> {
    for kind in NAMESPACES {
        let namespace = fs::read_link(Path::new("/proc/self/ns").join(kind))?;
        println!("{}", namespace.display());
    }
    Ok(())
}

/// Prints how many inotify instances this process can create.
fn inotify_instances() -> io::Result<()> {
    let mut instances = Vec::new();
    while let Ok(instance) = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty()) {
        instances.push(instance);
    }
    print(&instances.len().to_string(), "")
}

/// Starts a process that exceeds the memory limit, waits until it is killed, creates the file `killed`, and sleeps.
fn survive_a_memory_kill() -> io::Result<()> {
    spawn_self(&["eat-memory"])?.wait()?;
    fs::write("killed", "")?;
    sleep()
}

/// Makes the attempts in a JSON list, and fails unless all of them are blocked.
fn try_all(list: &str) -> io::Result<()> {
    let failures = attempts::failures(&serde_json::from_str::<Vec<Vec<String>>>(list)?);
    if failures.is_empty() { Ok(()) } else { Err(io::Error::other(failures.join("; "))) }
}

fn report(outcome: &AttemptOutcome) -> ExitCode {
    match outcome {
        AttemptOutcome::Blocked(error) => {
            println!("blocked: {error}");
            ExitCode::SUCCESS
        }
        AttemptOutcome::Inconclusive(error) => {
            eprintln!("unexpected error, the attempt proves nothing: {error} ({:?})", error.kind());
            ExitCode::from(ATTEMPT_INCONCLUSIVE)
        }
        AttemptOutcome::Succeeded => {
            println!("the attempt succeeded");
            ExitCode::from(ATTEMPT_SUCCEEDED)
        }
    }
}

//! Checks that attempts to escape from the guest fail, whether a program or a graph makes them.

use std::{
    net::{TcpListener, UdpSocket},
    os::{linux::net::SocketAddrExt, unix::net::UnixListener},
    path::Path,
};

use graph_core::{RunOutcome, checkpoint::CheckpointId};
use sandbox_vm::{GraphRun, Program, Sandbox, report::Guarantee};
use serde_json::{Map, json};

use crate::{
    attempts::MAX_GUEST_PID,
    check::{Check, Failure, TestContext, check, ensure, fail},
    hostile::NAMESPACES,
};

pub(crate) const CHECKS: &[Check] = &[
    check!(
        "escape: a program has no capabilities and cannot gain any",
        [Programs, FilteredCalls, NoPrivileges],
        no_capabilities
    )
    .in_shared_guest(),
    check!("escape: no network connection reaches the host or beyond", [NoNetwork], network)
        .in_shared_guest(),
    check!("escape: no file of the host is visible", [NoHostFiles], host_files).in_shared_guest(),
    check!("escape: the image cannot be written", [Programs, NoHostFiles], read_only)
        .in_shared_guest(),
    check!("escape: no process of the host can be seen or signalled", [OwnProcesses], processes)
        .in_shared_guest(),
    check!(
        "escape: programs share no namespace with the host",
        [Programs, OwnProcesses],
        namespaces
    )
    .in_shared_guest(),
    check!("escape: kernel files and devices are inaccessible", [FilteredCalls], kernel_files)
        .in_shared_guest(),
    check!("escape: dangerous system calls are blocked", [FilteredCalls], system_calls)
        .in_shared_guest(),
    check!(
        "escape: System V IPC and POSIX message queues are blocked",
        [FilteredCalls],
        message_queues
    )
    .in_shared_guest(),
    check!("escape: no text can be typed into a terminal", [FilteredCalls], terminals)
        .in_shared_guest(),
    check!("escape: no program can take resources from the agent", [FilteredCalls], agent)
        .in_shared_guest(),
];

/// Attempts that only programs make, each with the reason why graphs do not make it.
const ONLY_BY_PROGRAMS: [(&[&str], &str); 8] = [
    (&["open", "/proc/1/mem"], "the agent may read its own memory"),
    (&["write", "/proc/1/mem"], "the agent may write its own memory"),
    (&["lease"], "a VM without a guest kernel has no leases"),
    (&["delegation"], "a VM without a guest kernel has no delegations"),
    (&["32-bit-call"], "some back ends do not let a graph start a process"),
    (&["terminal-input", "TIOCSTI"], NO_FILTER),
    (&["terminal-input", "TIOCLINUX"], NO_FILTER),
    (&["terminal-input", "TIOCSTI-with-upper-half"], NO_FILTER),
];

const NO_FILTER: &str = "a VM without a guest kernel needs no filter: its monitor refuses the request, because it has no terminals";

/// Makes attempts to escape in a guest, both in a program and in a graph, and fails unless all of them are blocked. A
/// back end that runs no programs makes them only in a graph.
async fn assert_all_blocked(cx: &TestContext, attempts: &[&[&str]]) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let mut failures = failures_in_graph(&sandbox, attempts).await?;
    if cx.capabilities.has(Guarantee::Programs) {
        let list = json!(attempts).to_string();
        let output = sandbox.exec(Program::new(&*cx.program).args(["try-all", &list])).await?;
        if !output.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            failures.push(format!("in a program: {:?} {errors}", output.status));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Makes the attempts in a graph, in one run, and returns those that were not blocked.
async fn failures_in_graph(
    sandbox: &Sandbox,
    attempts: &[&[&str]],
) -> Result<Vec<String>, Failure> {
    let is_possible = |it: &&&[&str]| !ONLY_BY_PROGRAMS.iter().any(|(only, _)| only == *it);
    let possible: Vec<_> = attempts.iter().filter(is_possible).collect();
    let input = Map::from_iter([("attempts".to_owned(), json!(possible))]);
    let run = sandbox.run_graph(GraphRun::new("attempts").input(input)).await?;
    let RunOutcome::Done(state) = run.finish().await? else {
        return Err(fail("the graph with the attempts was interrupted"));
    };
    let failures: Vec<String> = serde_json::from_value(state["failures"].clone())?;
    Ok(failures.into_iter().map(|it| format!("in a graph: {it}")).collect())
}

async fn network(cx: TestContext) -> Result<(), Failure> {
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    // The name is unique because the suites of several back ends may run concurrently.
    let name = format!("sandbox-vm-{}", CheckpointId::next());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
    let abstract_socket = UnixListener::bind_addr(&address)?;
    let path = std::env::temp_dir().join(format!("{name}.socket"));
    let unix = UnixListener::bind(&path)?;
    let (address, socket) = (tcp.local_addr()?.to_string(), path.display().to_string());
    let attempts: &[&[&str]] = &[
        &["tcp", &address],
        &["tcp", "1.1.1.1:80"],
        &["tcp", "[2606:4700:4700::1111]:80"],
        &["udp", "8.8.8.8:53"],
        &["abstract", &name],
        &["unix", &socket],
    ];
    let outcome = assert_all_blocked(&cx, attempts).await;
    udp.set_nonblocking(true)?;
    std::fs::remove_file(&path)?;
    outcome?;
    // A packet that the guest sends to itself may arrive in the guest, but no packet may arrive on the host.
    let port = udp.local_addr()?.to_string();
    let _ = assert_all_blocked(&cx, &[&["udp", &port]]).await;
    ensure!(udp.recv(&mut [0; 16]).is_err(), "a packet from the guest arrived");
    for (listener, accepted) in [
        ("tcp", accepts(&tcp)?),
        ("abstract", accepts_unix(&abstract_socket)?),
        ("unix", accepts_unix(&unix)?),
    ] {
        ensure!(!accepted, "the guest connected to the host's {listener} listener");
    }
    if cx.capabilities.has(Guarantee::FilteredCalls) {
        let families = ["inet", "inet6", "raw", "packet", "netlink", "vsock", "bluetooth"];
        let attempts: Vec<_> = families.map(|it| ["socket", it]).to_vec();
        let attempts: Vec<&[&str]> = attempts.iter().map(|it| &it[..]).collect();
        assert_all_blocked(&cx, &attempts).await?;
    }
    Ok(())
}

fn accepts(listener: &TcpListener) -> std::io::Result<bool> {
    listener.set_nonblocking(true)?;
    Ok(listener.accept().is_ok())
}

fn accepts_unix(listener: &UnixListener) -> std::io::Result<bool> {
    listener.set_nonblocking(true)?;
    Ok(listener.accept().is_ok())
}

async fn host_files(cx: TestContext) -> Result<(), Failure> {
    let secret = std::env::temp_dir().join(format!("sandbox-vm-key-{}", CheckpointId::next()));
    std::fs::write(&secret, "key")?;
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let current = std::env::current_dir()?.display().to_string();
    let path = secret.display().to_string();
    let by_process = format!("/proc/1/root{path}");
    let attempts: &[&[&str]] = &[
        &["read", &path],
        &["read", &by_process],
        &["read", "/etc/shadow"],
        &["read", "/etc/machine-id"],
        &["list", &home],
        &["list", &current],
        &["list", "/var"],
        &["list", "/run"],
        &["list", "/boot"],
        &["list", "/usr/local"],
        &["list", "/usr/src"],
        // The guest's first process may be visible, but it must not have the host's environment variables.
        &["variable", "PATH"],
    ];
    let outcome = assert_all_blocked(&cx, attempts).await;
    std::fs::remove_file(&secret)?;
    outcome
}

async fn read_only(cx: TestContext) -> Result<(), Failure> {
    let attempts: &[&[&str]] = &[
        &["write", "/owned"],
        &["write", "/etc/passwd"],
        &["write", "/usr/owned"],
        &["write", "/agent"],
    ];
    assert_all_blocked(&cx, attempts).await
}

async fn processes(cx: TestContext) -> Result<(), Failure> {
    let own = std::process::id().to_string();
    let signal = ["signal", &own];
    let mut attempts: Vec<&[&str]> = vec![&["ptrace", "1"], &["processes"]];
    if std::process::id() > MAX_GUEST_PID {
        attempts.push(&signal);
    }
    assert_all_blocked(&cx, &attempts).await
}

/// Compares the ids of the guest's and the host's namespaces. The seccomp filter blocks most system calls that use a
/// namespace, so their failure would not show that the namespaces are separate. Skips guests with their own kernel,
/// whose ids are independent of the host's.
async fn namespaces(cx: TestContext) -> Result<(), Failure> {
    if cx.capabilities.has(Guarantee::OwnKernel) {
        return Ok(());
    }
    let sandbox = cx.sandbox(cx.spec()).await?;
    let output = sandbox.exec(Program::new(&*cx.program).arg("namespaces")).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for kind in NAMESPACES {
        let of_host = Path::new("/proc/self/ns").join(kind);
        let of_host = std::fs::read_link(of_host)?.display().to_string();
        let of_guest = text.lines().find(|it| it.starts_with(&format!("{kind}:[")));
        ensure!(
            of_guest.is_some_and(|it| it != of_host),
            "the guest's {kind} namespace is the host's or unknown: {of_guest:?}"
        );
    }
    Ok(())
}

async fn kernel_files(cx: TestContext) -> Result<(), Failure> {
    let attempts: &[&[&str]] = &[
        &["read", "/proc/kcore"],
        &["read", "/proc/kallsyms"],
        &["open", "/proc/1/mem"],
        &["write", "/proc/1/mem"],
        &["write", "/proc/self/comm"],
        &["write", "/proc/sysrq-trigger"],
        &["write", "/proc/sys/kernel/core_pattern"],
        &["list", "/sys"],
        &["write", "/sys/kernel/uevent_helper"],
        &["open", "/dev/mem"],
        &["open", "/dev/kmsg"],
        &["open", "/dev/kvm"],
        &["open", "/dev/sda"],
        &["open", "/dev/vda"],
        &["write", "/dev/owned"],
        &["device"],
    ];
    assert_all_blocked(&cx, attempts).await
}

async fn no_capabilities(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let output = sandbox.exec(Program::new(&*cx.program).arg("status")).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let none = "0000000000000000";
    let value = |name: &str| text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(":\t"));
    for (name, expected) in [
        ("CapInh", none),
        ("CapPrm", none),
        ("CapEff", none),
        ("CapBnd", none),
        ("no new privileges", "1"),
        // The value 2 means that a seccomp filter is active.
        ("Seccomp", "2"),
    ] {
        ensure!(value(name) == Some(expected), "{name} is {:?}, expected {expected}", value(name));
    }
    // A kernel that does not support ambient capabilities does not print the line `CapAmb`.
    ensure!(value("CapAmb").is_none_or(|it| it == none), "CapAmb is {:?}", value("CapAmb"));
    Ok(())
}

async fn system_calls(cx: TestContext) -> Result<(), Failure> {
    let attempts: &[&[&str]] = &[
        &["ptrace", "1"],
        &["mount"],
        &["unmount"],
        &["module"],
        &["namespace"],
        &["other-user"],
        &["reboot"],
        &["host-name"],
        &["clock"],
        &["calls", "kernel"],
        &["calls", "options"],
        &["32-bit-call"],
        &["lease"],
        &["delegation"],
    ];
    assert_all_blocked(&cx, attempts).await
}

async fn message_queues(cx: TestContext) -> Result<(), Failure> {
    assert_all_blocked(&cx, &[&["calls", "ipc"]]).await
}

async fn terminals(cx: TestContext) -> Result<(), Failure> {
    let attempts: &[&[&str]] = &[
        &["terminal"],
        &["terminal-input", "TIOCSTI"],
        &["terminal-input", "TIOCLINUX"],
        &["terminal-input", "TIOCSTI-with-upper-half"],
    ];
    assert_all_blocked(&cx, attempts).await
}

async fn agent(cx: TestContext) -> Result<(), Failure> {
    let attempts: &[&[&str]] = &[
        &["agent", "open-files"],
        &["agent", "priority"],
        &["agent", "priority-of-thread"],
        &["agent", "priority-of-user"],
        &["agent", "processors"],
    ];
    assert_all_blocked(&cx, attempts).await
}

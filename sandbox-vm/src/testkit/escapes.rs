//! Escapes: each is tried by a program in the guest, and none gets through.

use std::{
    net::{TcpListener, UdpSocket},
    os::{linux::net::SocketAddrExt, unix::net::UnixListener},
};

use super::{Check, Failure, TestContext, check, ensure};
use crate::{Program, report::Guarantee};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "escape: a program has no capability and cannot get any",
        [Programs, FilteredCalls, NoPrivileges],
        no_capabilities
    ),
    check!(
        "escape: no network of any kind reaches the host or beyond",
        [Programs, NoNetwork],
        network
    ),
    check!("escape: no file of the host is seen", [Programs, NoHostFiles], host_files),
    check!("escape: nothing of the image can be written", [Programs, NoHostFiles], read_only),
    check!(
        "escape: no process of the host is seen or signalled",
        [Programs, OwnProcesses],
        processes
    ),
    check!(
        "escape: the kernel's own files and devices are out of reach",
        [Programs, FilteredCalls],
        kernel_files
    ),
    check!("escape: no dangerous system call is made", [Programs, FilteredCalls], system_calls),
];

/// Tries each; all must be held.
async fn assert_all_blocked(cx: &TestContext, attempts: &[&[&str]]) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let mut succeeded = Vec::new();
    for attempt in attempts {
        let program = Program::new(&*cx.program).arg("try").args(attempt.iter().copied());
        let output = sandbox.exec(program).await?;
        if !output.success() {
            succeeded.push(format!(
                "{attempt:?}: {:?} {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    ensure!(succeeded.is_empty(), "{}", succeeded.join("; "));
    Ok(())
}

async fn network(cx: TestContext) -> Result<(), Failure> {
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    let name = format!("sandbox-vm-{}", std::process::id());
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
    // What it sends to itself may arrive; nothing arrives here.
    let port = udp.local_addr()?.to_string();
    let sandbox = cx.sandbox(cx.spec()).await?;
    let _ = sandbox.exec(Program::new(&*cx.program).args(["try", "udp", &port])).await?;
    ensure!(udp.recv(&mut [0; 16]).is_err(), "a packet of the guest arrived");
    for (listener, accepted) in [
        ("tcp", accepts(&tcp)?),
        ("abstract", accepts_unix(&abstract_socket)?),
        ("unix", accepts_unix(&unix)?),
    ] {
        ensure!(!accepted, "the guest connected to the host by {listener}");
    }
    // Where system calls are listed there is no socket to try it with. So the guest says which network it is in; one with
    // a kernel of its own counts its networks by itself.
    if !cx.capabilities.has(Guarantee::OwnKernel) {
        let output = sandbox.exec(Program::new(&*cx.program).arg("network")).await?;
        let network = String::from_utf8_lossy(&output.stdout).into_owned();
        let own = std::fs::read_link("/proc/self/ns/net")?.display().to_string();
        ensure!(
            network.starts_with("net:") && network != own,
            "it is in {network:?}, and so are we"
        );
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
    let secret = std::env::temp_dir().join(format!("sandbox-vm-key-{}", std::process::id()));
    std::fs::write(&secret, "key")?;
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let current = std::env::current_dir()?.display().to_string();
    let path = secret.display().to_string();
    let by_process = format!("/proc/1/root{path}");
    let outcome = assert_all_blocked(
        &cx,
        &[
            &["read", &path],
            &["read", &by_process],
            &["read", "/etc/shadow"],
            &["read", "/etc/machine-id"],
            &["list", &home],
            &["list", &current],
            &["list", "/var"],
            &["list", "/run"],
            &["list", "/boot"],
            // The first process may be seen, but nothing of the host's own variables in it.
            &["variable", "PATH"],
        ],
    )
    .await;
    std::fs::remove_file(&secret)?;
    outcome
}

async fn read_only(cx: TestContext) -> Result<(), Failure> {
    assert_all_blocked(
        &cx,
        &[
            &["write", "/owned"],
            &["write", "/etc/passwd"],
            &["write", "/usr/owned"],
            &["write", "/agent"],
        ],
    )
    .await
}

/// A guest has so few processes that a larger id is none of its own.
pub(super) const MAX_GUEST_PID: u32 = 1000;

async fn processes(cx: TestContext) -> Result<(), Failure> {
    let own = std::process::id().to_string();
    let signal = ["signal", &own];
    let mut attempts: Vec<&[&str]> = vec![&["ptrace", "1"], &["processes"]];
    if std::process::id() > MAX_GUEST_PID {
        attempts.push(&signal);
    }
    assert_all_blocked(&cx, &attempts).await
}

async fn kernel_files(cx: TestContext) -> Result<(), Failure> {
    assert_all_blocked(
        &cx,
        &[
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
        ],
    )
    .await
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
        // A filter is at work.
        ("Seccomp", "2"),
    ] {
        ensure!(value(name) == Some(expected), "{name} is {:?} and not {expected}", value(name));
    }
    // A kernel without ambient capabilities does not speak of them.
    ensure!(value("CapAmb").is_none_or(|it| it == none), "CapAmb is {:?}", value("CapAmb"));
    Ok(())
}

async fn system_calls(cx: TestContext) -> Result<(), Failure> {
    assert_all_blocked(
        &cx,
        &[
            &["ptrace", "1"],
            &["mount"],
            &["unmount"],
            &["module"],
            &["namespace"],
            &["other-user"],
            &["reboot"],
            &["host-name"],
            &["clock"],
        ],
    )
    .await
}

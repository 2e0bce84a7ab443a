//! Checks that attempts by a program to escape from the guest fail.

use std::{
    net::{TcpListener, UdpSocket},
    os::{linux::net::SocketAddrExt, unix::net::UnixListener},
};

use sandbox_vm::{Program, report::Guarantee};

use crate::{
    check::{Check, Failure, TestContext, check, ensure},
    hostile::MAX_GUEST_PID,
};

pub(crate) const CHECKS: &[Check] = &[
    check!(
        "escape: a program has no capabilities and cannot gain any",
        [Programs, FilteredCalls, NoPrivileges],
        no_capabilities
    ),
    check!(
        "escape: no network connection reaches the host or beyond",
        [Programs, NoNetwork],
        network
    ),
    check!("escape: no file of the host is visible", [Programs, NoHostFiles], host_files),
    check!("escape: the image cannot be written", [Programs, NoHostFiles], read_only),
    check!(
        "escape: no process of the host can be seen or signalled",
        [Programs, OwnProcesses],
        processes
    ),
    check!(
        "escape: kernel files and devices are inaccessible",
        [Programs, FilteredCalls],
        kernel_files
    ),
    check!("escape: dangerous system calls are blocked", [Programs, FilteredCalls], system_calls),
];

/// Runs each attempt to escape in a guest, and fails unless all attempts are blocked.
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
    // A packet that the guest sends to itself may arrive in the guest, but no packet may arrive on the host.
    let port = udp.local_addr()?.to_string();
    let sandbox = cx.sandbox(cx.spec()).await?;
    let _ = sandbox.exec(Program::new(&*cx.program).args(["try", "udp", &port])).await?;
    ensure!(udp.recv(&mut [0; 16]).is_err(), "a packet from the guest arrived");
    for (listener, accepted) in [
        ("tcp", accepts(&tcp)?),
        ("abstract", accepts_unix(&abstract_socket)?),
        ("unix", accepts_unix(&unix)?),
    ] {
        ensure!(!accepted, "the guest connected to the host's {listener} listener");
    }
    // If system calls are filtered, the guest cannot create a socket to connect with, so compare network namespaces
    // instead. Skip this for a guest with its own kernel, which numbers its namespaces independently.
    if !cx.capabilities.has(Guarantee::OwnKernel) {
        let output = sandbox.exec(Program::new(&*cx.program).arg("network")).await?;
        let network = String::from_utf8_lossy(&output.stdout).into_owned();
        let own = std::fs::read_link("/proc/self/ns/net")?.display().to_string();
        ensure!(
            network.starts_with("net:") && network != own,
            "the guest is in network namespace {network:?}, which is the host's or unknown"
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
            &["list", "/usr/local"],
            &["list", "/usr/src"],
            // The guest's first process may be visible, but it must not have the host's environment variables.
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

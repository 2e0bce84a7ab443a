//! Tests that no program can escape from its sandbox or change files on the host. The escape attempts are harmless even
//! if one succeeds.

use std::{fs, os::unix::fs::PermissionsExt};

use reflexion_graph::execution::Status;

use crate::{patient_job, run};

/// Runs escape attempts, each of which must raise an exception, and returns the ones that did not.
async fn breaches(attempts: &str) -> String {
    let code = format!(
        "import os, socket, ctypes\nbreaches = []\ndef attempt(name, way):\n    try:\n        got = way()\n    \
         except BaseException:\n        return\n    if got is not False:\n        breaches.append((name, repr(got)[:80]))\n\
         libc = ctypes.CDLL(None, use_errno=True)\n{attempts}\nprint(breaches)"
    );
    let execution = run(&code, &patient_job("escape")).await;
    assert_eq!(execution.status, Status::Success, "{execution:?}");
    execution.stdout.trim().to_owned()
}

#[tokio::test]
async fn network_is_unreachable() {
    let attempts = "
attempt('connect', lambda: socket.create_connection(('1.1.1.1', 53), timeout=2))
attempt('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53)))
attempt('host', lambda: socket.create_connection(('127.0.0.1', 22), timeout=2))
attempt('name', lambda: socket.gethostbyname('example.com'))
";
    assert_eq!(breaches(attempts).await, "[]");
}

#[tokio::test]
async fn host_files_are_hidden_and_the_image_is_read_only() {
    let secret = tempfile::tempdir().unwrap();
    fs::set_permissions(secret.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = secret.path().join("secret");
    fs::write(&path, "mine").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let path = path.display();
    let attempts = format!(
        "
attempt('read', lambda: open('{path}').read())
attempt('write', lambda: open('{path}', 'w').write('theirs'))
os.symlink('{path}', 'link')
attempt('link', lambda: open('link').read())
os.symlink('/proc/1/root{path}', 'root')
attempt('root', lambda: open('root').read())
attempt('up', lambda: open('../../../../..{path}').read())
attempt('shadow', lambda: open('/etc/shadow').read())
attempt('home', lambda: os.listdir('/root') or False)
attempt('usr', lambda: open('/usr/bin/python3', 'r+b'))
attempt('new', lambda: open('/usr/new', 'w'))
attempt('slash', lambda: open('/new', 'w'))
attempt('remount', lambda: libc.mount(b'none', b'/usr', None, 32, None) == 0)
attempt('rename', lambda: os.rename('/usr/bin/env', '/usr/bin/env'))
"
    );
    assert_eq!(breaches(&attempts).await, "[]");
    assert_eq!(fs::read_to_string(secret.path().join("secret")).unwrap(), "mine");
    assert_eq!(fs::read_dir(secret.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn other_processes_and_privileges_are_out_of_reach() {
    let host = std::process::id();
    let attempts = format!(
        "
attempt('ptrace', lambda: libc.ptrace(16, 1, None, None) == 0)
attempt('signal', lambda: os.kill({host}, 0))
attempt('memory', lambda: open('/proc/1/mem', 'rb').read(1))
attempt('environment', lambda: open('/proc/{host}/environ').read())
attempt('kcore', lambda: open('/proc/kcore', 'rb').read(1))
attempt('sysrq', lambda: open('/proc/sysrq-trigger', 'w'))
attempt('setuid', lambda: os.setuid(0))
attempt('namespace', lambda: libc.unshare(0x10000000) == 0)
attempt('chroot', lambda: os.chroot('/tmp'))
attempt('device', lambda: os.mknod('disk', 0o60666, os.makedev(8, 0)))
status = open('/proc/self/status').read()
attempt('capabilities', lambda: any(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(('CapEff', 'CapPrm', 'CapBnd'))))
attempt('new privileges', lambda: libc.prctl(39, 0, 0, 0, 0) != 1)
"
    );
    assert_eq!(breaches(&attempts).await, "[]");
}

#[tokio::test]
async fn environment_variables_are_not_inherited() {
    let code = "import os\nprint(sorted(os.environ))";
    let execution = run(code, &patient_job("look")).await;
    let names = execution.stdout.trim();
    assert_eq!(names, "['HOME', 'LC_CTYPE', 'PATH', 'PYTHONHASHSEED']");
}

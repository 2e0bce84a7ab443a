//! The conformance suite in micro VMs, and tests specific to micro VMs.
//!
//! These tests need the agent and the images that `cargo xtask guest-image` builds. `cargo xtask test` builds them
//! first.

use std::{
    env, fs,
    os::unix::{
        fs::{FileExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use rustix::process::{Pid, geteuid};
use sandbox_testkit::GuestStart;
use sandbox_vm::{
    ExceededLimit, Image, Pool, Program, Sandbox, Spec,
    backend::{Backend, MicroVm},
    image::Images,
    sandbox_dir::Leftover,
};

use crate::{HOSTILE, pool::until, sandboxes};

/// Environment variable that makes the tests fail, instead of being skipped, if the agent or the images are missing.
const REQUIRE: &str = "GRAPH_REQUIRE_MICROVM";

/// Environment variable that selects the checks whose names contain its value, because running all of them takes
/// minutes in emulated VMs.
const CHECKS: &str = "SANDBOX_VM_CHECKS";

/// Prefixes of the checks that run in every test run: all checks with hostile programs or graphs, the checks of
/// snapshots, and one graph run. Most of the checks with hostile programs share a guest. The other checks run only
/// nightly, because they test the agent, which is the same in every back end, and take minutes in emulated VMs.
const ALWAYS: [&str; 11] = [
    "escape: ",
    "limits: ",
    "snapshot: ",
    "exec: a program's environment",
    "exec: processes that a program leaves behind",
    "exec: orphaned processes",
    "fs: no ",
    "graph: a graph runs",
    "graph: a call that is not allowed",
    "graph: a guest cannot access",
    "life: an unresponsive guest",
];

#[test]
fn selected_checks_exist() {
    for prefix in ALWAYS {
        assert!(sandbox_testkit::checks().any(|it| it.name().starts_with(prefix)), "{prefix}");
    }
}

/// Environment variable that is set when the test below reruns itself without QEMU.
const WITHOUT_QEMU: &str = "SANDBOX_VM_WITHOUT_QEMU";

#[tokio::test]
async fn advice_for_missing_qemu_covers_parts_from_backports() {
    if env::var_os(WITHOUT_QEMU).is_some() {
        let report = MicroVm::agent(HOSTILE).probe().await;
        assert!(!report.is_available(), "{report}");
        let advice = report.advice.join("; ");
        let install = "apt-get install ";
        for command in ["qemu-system-x86`", "-t bookworm-backports qemu-system-x86`"] {
            assert!(advice.contains(&format!("`{install}{command}")), "{advice}");
        }
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let name = "microvm::advice_for_missing_qemu_covers_parts_from_backports";
    let mut test = std::process::Command::new(env::current_exe().unwrap());
    test.args([name, "--exact"]).env(WITHOUT_QEMU, "1").env("PATH", empty.path());
    let output = test.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Returns the path of the suite's program, built as a statically linked agent for VMs. Returns `None` if Cargo's
/// target directory does not contain it.
pub(crate) fn agent() -> Option<PathBuf> {
    let program = env::current_exe().unwrap();
    let dirs = program.ancestors().map(|it| it.join("x86_64-unknown-linux-gnu/release"));
    let mut agents = dirs.map(|it| it.join("sandbox-vm-hostile"));
    agents.find(|it| it.is_file())
}

/// Returns the back end, or `None` if the test must be skipped because the agent or its images are missing. The tests
/// share the back end's report and its images, because probing it and preparing an image take seconds.
pub(crate) fn micro_vm() -> Option<MicroVm> {
    static SHARED: OnceLock<MicroVm> = OnceLock::new();
    let found = agent().filter(|_| Images::open_default().is_ok());
    let found = found.map(|agent| SHARED.get_or_init(|| MicroVm::agent(agent)).clone());
    if found.is_none() {
        let images = Images::open_default().err().map(|it| it.to_string()).unwrap_or_default();
        let problem =
            format!("run `cargo xtask guest-image` first; agent: {:?}; {images}", agent());
        assert!(env::var_os(REQUIRE).is_none(), "{problem}");
        test_support::report_skipped(&format!("tests of micro VMs; {problem}"));
    }
    found
}

/// Returns the back end whose guests run the suite's program as Cargo builds it by default, which is dynamically
/// linked.
pub(crate) fn dynamically_linked_micro_vm() -> MicroVm {
    static SHARED: OnceLock<MicroVm> = OnceLock::new();
    SHARED.get_or_init(|| MicroVm::agent(HOSTILE).with_libraries()).clone()
}

#[test]
fn missing_images_skip_tests_unless_required() {
    let empty = tempfile::tempdir().unwrap();
    let run = |require: bool| {
        let mut test = std::process::Command::new(env::current_exe().unwrap());
        // Do not pass `--nocapture`, because the `SKIPPED` message must be visible even if the test harness captures
        // the output.
        test.arg("vm_graph::vm_graph_trace").env_remove(REQUIRE);
        test.env("SANDBOX_VM_IMAGES", empty.path()).envs(require.then_some((REQUIRE, "1")));
        let output = test.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).contains("SKIPPED"))
    };
    assert_eq!(run(false), (true, true));
    assert_eq!(run(true), (false, false));
}

/// The suite's guests run its program as a static agent, and in nightly runs also as Cargo builds it by default, which
/// is dynamically linked. The suite is split into two tests, which run in parallel, because emulated VMs are slow. For
/// the same reason, most guests are restored from snapshots; nightly runs boot every guest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn micro_vm_passes_every_second_check_of_the_suite() {
    run_every_second_check(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn micro_vm_passes_the_remaining_checks_of_the_suite() {
    run_every_second_check(1).await;
}

async fn run_every_second_check(first: usize) {
    let Some(agent) = micro_vm() else { return };
    let wanted = env::var(CHECKS).ok();
    let nightly = test_support::is_nightly();
    let start = if nightly { GuestStart::Boot } else { GuestStart::Snapshot };
    let selected = |name: &str| match &wanted {
        Some(wanted) => name.contains(wanted),
        None => nightly || ALWAYS.iter().any(|it| name.starts_with(it)),
    };
    for vm in [agent].into_iter().chain(nightly.then(dynamically_linked_micro_vm)) {
        let checks = sandbox_testkit::checks().filter(|it| selected(it.name()));
        let checks = checks.skip(first).step_by(2);
        let report = sandbox_testkit::run_checks(HOSTILE, || vm.clone(), checks, start).await;
        eprintln!("{vm:?}: {report}");
        // If `CHECKS` selects a single check, the other half of the suite is empty.
        if !report.outcomes.is_empty() {
            report.assert();
        }
        let floor = if nightly { 20 } else { 15 };
        assert!(wanted.is_some() || report.passed() >= floor, "{report}");
    }
}

/// QEMU's process must have few privileges, because a guest that takes over QEMU gains them. This test inspects them
/// from outside the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qemu_process_is_confined() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, dir) = sandboxes(vm).await;
    fs::write(dir.path().join("secret"), "").unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("walled")).await.unwrap();
    let process = PathBuf::from(format!("/proc/{}", machines(&state_of(&dir))[0]));
    let at = |path: &str| process.join(path);
    let program = fs::read_link(at("exe")).unwrap();
    assert!(program.ends_with("qemu-system-x86_64"), "{program:?}");

    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let ours = fs::read_link(Path::new("/proc/self/ns").join(kind)).unwrap();
        assert_ne!(fs::read_link(at("ns").join(kind)).unwrap(), ours, "{kind}");
    }
    let status = fs::read_to_string(at("status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(&format!("{name}:"))).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let user = if geteuid().is_root() { 65_534 } else { geteuid().as_raw() }.to_string();
    assert_eq!(field("Uid"), [&*user; 4]);
    assert_eq!(field("NSpid").last().unwrap(), "1");
    assert_eq!([field("NoNewPrivs"), field("Seccomp")], [["1"], ["2"]]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }

    let interfaces = fs::read_to_string(at("net/dev")).unwrap();
    let interfaces: Vec<_> = interfaces.lines().skip(2).map(str::trim).collect();
    assert!(interfaces.len() == 1 && interfaces[0].starts_with("lo: "), "{interfaces:?}");

    let root = at("root");
    for hidden in ["bin/sh", "usr/bin/env", "etc/passwd", "sys", "tmp", "home", "root", "dev/null"]
    {
        assert!(!root.join(hidden).exists(), "{hidden}");
    }
    assert!(!root.join(dir.path().strip_prefix("/").unwrap()).exists());
    let mounts = fs::read_to_string(at("mountinfo")).unwrap();
    let is_safe = |it: &&str| {
        it.contains(" ro,nosuid,nodev") || it.contains(" /proc ") || it.contains(" /dev/kvm ")
    };
    assert_eq!(mounts.lines().find(|it| !is_safe(it)), None);
    for descriptor in fs::read_dir(at("fd")).unwrap() {
        let to = fs::read_link(descriptor.unwrap().path()).unwrap();
        let is_file = to.is_absolute() && !to.ends_with("null") && !to.ends_with("kvm");
        assert!(!is_file || to.to_string_lossy().starts_with("/memfd:"), "{to:?}");
    }
    sandbox.delete().await;
}

#[test]
fn qemu_process_of_unprivileged_user_is_confined() {
    if micro_vm().is_none() || !geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
    let mut test = std::process::Command::new(env::current_exe().unwrap());
    test.args(["microvm::qemu_process_is_confined", "--exact", "--nocapture"]);
    test.env("TMPDIR", dir.path()).env_remove("XDG_RUNTIME_DIR").env(REQUIRE, "1");
    let output = test.current_dir("/").uid(65_534).gid(65_534).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The host's kernel kills a QEMU process that exceeds the memory limit of its control group. The sandbox must report
/// the memory limit as the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vm_exceeding_its_cgroup_memory_reports_memory_limit() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, dir) = sandboxes(vm).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("large")).await.unwrap();
    let groups = leftovers(&state_of(&dir)).into_iter().filter_map(|it| match it {
        Leftover::Cgroup(dir) => Some(dir),
        _ => None,
    });
    let file = |dir: &PathBuf, name: &str| dir.join(name);
    let Some(group) = groups.into_iter().find(|it| file(it, "memory.limit_in_bytes").exists())
    else {
        test_support::report_skipped(
            "a VM exceeding its memory limit; no version 1 control group limits memory here",
        );
        return;
    };
    let used: u64 =
        fs::read_to_string(file(&group, "memory.usage_in_bytes")).unwrap().trim().parse().unwrap();
    fs::write(file(&group, "memory.limit_in_bytes"), (used + (16 << 20)).to_string()).unwrap();
    let eat = Program::new(sandbox_testkit::PROGRAM).arg("eat-memory");
    let eat = eat.limits(sandbox_testkit::long_exec_limits());
    let error = sandbox.exec(eat).await.unwrap_err();
    assert_eq!(error.exceeded_limit(), Some(ExceededLimit::Memory), "{error}");
}

/// The agent's capabilities must not be effective while a graph runs. The agent needs them to set the clock of a
/// restored guest, but graphs run in the agent's process too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_capabilities_are_effective_only_while_used() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, dir) = sandboxes(vm).await;
    let rights = async |sandbox: &Sandbox| {
        let code = "print([it.split()[1] for it in open('/proc/1/status') if it[:6] in ('CapPrm', 'CapEff')])";
        let program = Program::new("python3").args(["-c", code]);
        let program = program.limits(sandbox_testkit::long_exec_limits());
        let output = sandbox.exec(program).await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // CAP_SYS_ADMIN and CAP_SYS_TIME are permitted; no capability is effective.
    let laid_down = "['0000000002200000', '0000000000000000']\n";
    let spec = |name: &str| Spec::new(name).image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec("first")).await.unwrap();
    assert_eq!(rights(&sandbox).await, laid_down);
    let snapshot = sandbox.snapshot(dir.path().join("snapshot")).await.unwrap();
    sandbox.delete().await;
    // Restoring fails if the guest does not accept the time and the new random state.
    let copy = sandboxes.restore(spec("copy"), snapshot).await.unwrap();
    assert_eq!(rights(&copy).await, laid_down);
    copy.delete().await;
}

/// Taking a snapshot stops the VM. The VM must continue even if the caller drops the `snapshot` future before it
/// completes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vm_continues_after_cancelled_snapshot() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, dir) = sandboxes(vm).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("hurried")).await.unwrap();
    let snapshot_dir = dir.path().join("snapshot");
    for limit in [1, 5, 20, 50].map(Duration::from_millis) {
        let cut = tokio::time::timeout(limit, sandbox.snapshot(&snapshot_dir)).await;
        assert!(cut.is_err(), "the snapshot took less time than expected");
        sandbox.fs().write("still", "here").await.unwrap();
    }
    // Another snapshot succeeds, so the connection to QEMU's monitor is still in sync.
    let snapshot = sandbox.snapshot(&snapshot_dir).await.unwrap();
    sandbox.delete().await;
    let copy = sandboxes.restore(Spec::new("copy"), snapshot).await.unwrap();
    assert_eq!(copy.fs().read("still").await.unwrap(), b"here");
    copy.delete().await;
}

#[test]
fn vm_footprint_exceeds_guest_memory() {
    let Some(vm) = micro_vm() else { return };
    let spec = Spec::new("counted");
    let more = vm.footprint(&spec) - spec.limits.memory;
    assert!((200 << 20..600 << 20).contains(&more), "{more}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_starts_all_but_first_vm_from_snapshot() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, dir) = sandboxes(vm).await;
    let state = dir.path().join("state");
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(1).open();
    for from_snapshot in [false, true, true] {
        until(|| pool.metrics().ready == 1).await;
        let machine = machines(&state)[0];
        let line = fs::read_to_string(format!("/proc/{machine}/cmdline")).unwrap();
        assert_eq!(line.contains("-incoming"), from_snapshot, "{line}");
        let sandbox = pool.acquire().await.unwrap();
        assert!(sandbox.fs().list("").await.unwrap().is_empty());
        sandbox.fs().write("secret", "of this user").await.unwrap();
        sandbox.delete().await;
    }
    assert_eq!(pool.metrics().cold, 0);
    drop(pool);
    sandboxes.delete_all().await;
    // Dropping the pool deletes the snapshot.
    until(|| fs::read_dir(&state).unwrap().count() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modified_snapshot_is_refused() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, dir) = sandboxes(vm).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("snapshot")).await.unwrap();
    let snapshot_dir = dir.path().join("snapshot");
    let snapshot = sandbox.snapshot(&snapshot_dir).await.unwrap();
    sandbox.delete().await;
    let refused = async |expected: &str| {
        let outcome = sandboxes.restore(Spec::new("copy"), snapshot.clone()).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(expected) && error.ends_with("make a new one"), "{error}");
    };
    let list = snapshot_dir.join("machine.json");
    let true_list = fs::read_to_string(&list).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&true_list).unwrap();
    other["qemu"] = "QEMU 1.0".into();
    fs::write(&list, other.to_string()).unwrap();
    refused("it was created by QEMU 1.0, but this is").await;

    fs::write(&list, true_list).unwrap();
    fs::set_permissions(&snapshot_dir, fs::Permissions::from_mode(0o777)).unwrap();
    refused("nobody else can write to").await;
    fs::set_permissions(&snapshot_dir, fs::Permissions::from_mode(0o700)).unwrap();
    let state =
        fs::File::options().read(true).write(true).open(snapshot_dir.join("state")).unwrap();
    let length = state.metadata().unwrap().len();
    let mut byte = [0];
    state.read_exact_at(&mut byte, length / 2).unwrap();
    state.write_all_at(&[byte[0] ^ 1], length / 2).unwrap();
    refused("was modified").await;
    state.set_len(length - 1).unwrap();
    refused("wrong length").await;
    fs::remove_file(list).unwrap();
    refused("No such file").await;
    assert!(sandboxes.list().is_empty());
}

fn state_of(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("state")
}

/// Returns the leftovers that the sandbox directories in the state directory record.
pub(crate) fn leftovers(state: &Path) -> Vec<Leftover> {
    let sandbox_dirs = fs::read_dir(state).unwrap().map(|it| it.unwrap().path());
    // The directory of a deleted sandbox may disappear meanwhile.
    let lists = sandbox_dirs.filter_map(|it| fs::read_to_string(it.join("leftovers")).ok());
    let lines = |it: String| -> Vec<Leftover> {
        it.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
    };
    lists.flat_map(lines).collect()
}

/// Returns the QEMU processes of the sandboxes in the state directory. They are the children of the recorded processes.
pub(crate) fn machines(state: &Path) -> Vec<Pid> {
    let started = |leftover: Leftover| match leftover {
        Leftover::Process { pid, .. } => {
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()
        }
        _ => None,
    };
    let children = leftovers(state).into_iter().filter_map(started);
    children.filter_map(|it| Pid::from_raw(it.trim().parse().ok()?)).collect()
}

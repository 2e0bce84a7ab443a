//! Tests of the Docker back end: the conformance suite if a container engine is available, and checks of the back end's
//! requests with a fake engine.

mod engine;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use graph_core::{MemorySaver, checkpoint::CheckpointId};
use sandbox_vm::{
    Error, ExceededLimit, GraphRun, Image, Spec,
    backend::{Backend, Docker, Guest},
    input_fields,
    report::{Guarantee, Report},
    sandbox_dir::{self, Leftover, SandboxDir},
};
use serde_json::json;
use tempfile::TempDir;

use self::engine::FakeEngine;
use crate::{HOSTILE, microvm::agent, pool::until, sandboxes, start_host};

/// Returns a back end and its fake container engine. The fake engine ignores the agent that it is given and runs the
/// suite's guest as an ordinary process.
fn docker() -> (Docker, Arc<FakeEngine>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agent");
    fs::write(&agent, "a program").unwrap();
    let (engine, socket) = FakeEngine::listen(dir.path());
    (Docker::agent(agent).socket(socket), engine, dir)
}

#[tokio::test]
async fn container_is_created_with_isolation_and_limits() {
    let (docker, engine, _engine_dir) = docker();
    let (sandboxes, dir) = sandboxes(docker).await;
    let mut spec = Spec::new("job").memory(96 << 20).cpus(0.5).shared_dir("data", "/srv/data");
    spec.limits.processes = 24;
    spec.limits.disk = 16 << 20;
    let _sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let bodies = engine.bodies();
    let [body] = bodies.as_slice() else { panic!("{bodies:?}") };
    let host = &body["HostConfig"];
    for (value, expected) in [
        (&body["NetworkDisabled"], json!(true)),
        (&host["NetworkMode"], json!("none")),
        (&host["ReadonlyRootfs"], json!(true)),
        (&host["CapDrop"], json!(["ALL"])),
        (&host["SecurityOpt"], json!(["no-new-privileges:true"])),
        (&host["Memory"], json!(96 << 20)),
        (&host["MemorySwap"], json!(96 << 20)),
        (&host["NanoCpus"], json!(500_000_000)),
        (&host["PidsLimit"], json!(40)),
        (&host["LogConfig"], json!({ "Type": "none" })),
        (
            &host["Mounts"],
            json!([{ "Target": "/data", "Source": "/srv/data", "Type": "bind", "ReadOnly": true }]),
        ),
        (&body["User"], json!("65534:65534")),
        (&body["Env"], json!([])),
        (&body["StdinOnce"], json!(true)),
        (&body["Labels"]["sandbox-vm.name"], json!("job")),
    ] {
        assert_eq!(*value, expected, "{body:#}");
    }
    // The sizes of the two mounts add up to the disk limit.
    for (at, size) in [("/workspace", 12 << 20), ("/tmp", 4 << 20)] {
        let size = format!("size={size},");
        assert!(host["Tmpfs"][at].as_str().unwrap().contains(&size), "{host:#}");
    }
    assert!(host["Binds"].is_null(), "{host:#}");

    // The container is recorded: if this process crashed, the next process that opens the state directory would remove
    // the container.
    let id = body["Labels"]["sandbox-vm"].as_str().unwrap();
    let list = dir.path().join("state").join(id).join("leftovers");
    let list = fs::read_to_string(list).unwrap();
    let leftover: Leftover = serde_json::from_str(list.trim()).unwrap();
    let expected = format!("sandbox-vm-{id}");
    assert!(matches!(leftover, Leftover::Container { name, .. } if name == expected), "{list}");
}

#[tokio::test]
async fn guest_is_reached_through_the_engine() {
    let (docker, engine, _engine_dir) = docker();
    let report = docker.probe().await;
    assert!(report.is_isolated() && report.has(Guarantee::MemoryLimit), "{report}");
    // The fake engine reports that it cannot enforce processor shares.
    assert!(!report.has(Guarantee::CpuShare), "{report}");
    let (sandboxes, _dir) = sandboxes(docker).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    let order = input_fields(&json!({ "item": "tea", "approved": false })).unwrap();
    let run = GraphRun::new("order").input(order).thread("t", Arc::new(MemorySaver::new()));
    let exit = sandbox.run_graph(run).await.unwrap().finish().await.unwrap();
    assert_eq!(exit.interrupts()[0].value, "buy tea?");
    let usage = sandbox.usage().await.unwrap();
    assert_eq!((usage.cpu, usage.memory), (Duration::from_millis(1500), 4096));
    sandbox.pause().await.unwrap();
    sandbox.resume().await.unwrap();
    sandbox.delete().await;
    assert!(engine.bodies().is_empty(), "containers were left behind");
    let requests = engine.requests();
    let count = |end: &str| requests.iter().filter(|it| it.ends_with(end)).count();
    assert_eq!((count("/pause"), count("/unpause")), (1, 1), "{requests:?}");
    // Three guests were started, two of them by probes. The image was uploaded only once.
    assert_eq!((count("/start"), count("/images/create")), (3, 1), "{requests:?}");
}

#[tokio::test]
async fn out_of_memory_is_reported_as_memory_limit() {
    let (docker, engine, _engine_dir) = docker();
    let (sandboxes, _dir) = sandboxes(docker).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    engine.kill_all();
    let error = sandbox.ping().await.unwrap_err();
    assert_eq!(error.exceeded_limit(), Some(ExceededLimit::Memory), "{error}");
}

/// An out-of-memory event is attributed to one program only, and not to the next program as well. A later event is
/// reported again.
#[tokio::test]
async fn each_out_of_memory_event_is_reported_once() {
    let (docker, engine, dir) = docker();
    let id = CheckpointId::next().to_string();
    let sandbox_dir = SandboxDir::create(&dir.path().join("state"), &id).unwrap();
    let guest = docker.start(&Spec::new("job"), &sandbox_dir).await.unwrap();
    assert_eq!(guest.handle.exceeded_limit().await, None);
    for _ in 0..2 {
        engine.exhaust_memory();
        assert_eq!(guest.handle.exceeded_limit().await, Some(ExceededLimit::Memory));
        assert_eq!(guest.handle.exceeded_limit().await, None);
    }
    guest.handle.kill().await;
}

/// Environment variable that makes the suite fail, instead of being skipped, if no container engine is available.
const REQUIRE: &str = "GRAPH_REQUIRE_DOCKER";

/// Uses the back end's own image for every container, because the suite's program needs no other image.
#[derive(Clone, Debug)]
pub(crate) struct BaseImageOnly(Docker);

#[async_trait]
impl Backend for BaseImageOnly {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    async fn probe(&self) -> Report {
        self.0.probe().await
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        self.0.start(&spec.clone().image(Image::Base), sandbox_dir).await
    }
}

/// Returns the agent and a back end whose engine can start it, or `None` if the test must be skipped.
pub(crate) async fn real_engine() -> Option<(PathBuf, BaseImageOnly)> {
    let skip = |why: String| {
        assert!(env::var_os(REQUIRE).is_none(), "{why}");
        test_support::report_skipped(&format!("tests of containers; {why}"));
        None
    };
    let Some(agent) = agent() else {
        return skip("run `cargo xtask guest-image` first".to_owned());
    };
    let docker = BaseImageOnly(Docker::agent(&agent));
    let report = docker.probe().await;
    match report.is_available() {
        true => Some((agent, docker)),
        false => skip(report.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn docker_passes_suite() {
    let Some((_, docker)) = real_engine().await else { return };
    let report = sandbox_testkit::run(HOSTILE, || docker.clone()).await;
    eprintln!("docker: {report}");
    report.assert();
    assert!(report.passed() > 45, "{report}");
}

/// Returns the process ids of all containers that the engine lists for these sandboxes.
async fn processes(ids: &[String]) -> Vec<i64> {
    let host = env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let engine = bollard::Docker::connect_with_host(&host).unwrap();
    let mut found = Vec::new();
    for id in ids {
        match engine.inspect_container(&format!("sandbox-vm-{id}"), None).await {
            Ok(it) => found.push(it.state.unwrap().pid.unwrap()),
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    found
}

#[tokio::test]
async fn containers_of_killed_host_exit_and_next_start_removes_them() {
    let Some((agent, _)) = real_engine().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut host = Command::new(HOSTILE);
    host.args(["host", "docker", "6"]).arg(&state).env("SANDBOX_VM_AGENT", agent);
    let mut host = start_host(host.env("SANDBOX_VM_STATE", dir.path().join("usual")));
    let entries = fs::read_dir(&state).unwrap();
    let ids: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    let pids = processes(&ids).await;
    assert_eq!((ids.len(), pids.len()), (6, 6));
    let reap = || {
        tokio::task::spawn_blocking({
            let state = state.clone();
            move || sandbox_dir::remove_orphans(&state)
        })
    };
    assert_eq!(reap().await.unwrap(), 0);

    host.kill().unwrap();
    host.wait().unwrap();
    until(|| pids.iter().all(|it| !Path::new(&format!("/proc/{it}")).exists())).await;
    assert_eq!(reap().await.unwrap(), 6);
    assert_eq!(processes(&ids).await, Vec::<i64>::new());
    assert_eq!(sandbox_dir_count(dir.path()), 0);
}

/// Returns the number of sandbox directories.
fn sandbox_dir_count(dir: &Path) -> usize {
    fs::read_dir(dir.join("state")).unwrap().count()
}

#[tokio::test]
async fn dropping_the_sandbox_removes_its_container() {
    let (docker, engine, _engine_dir) = docker();
    let (sandboxes, dir) = sandboxes(docker).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    assert_eq!((engine.bodies().len(), sandbox_dir_count(dir.path())), (1, 1));
    drop((sandboxes, sandbox));
    until(|| engine.bodies().is_empty() && sandbox_dir_count(dir.path()) == 0).await;
}

#[tokio::test]
async fn cancelled_start_removes_its_container() {
    let (docker, engine, _engine_dir) = docker();
    let (sandboxes, dir) = sandboxes(docker).await;
    engine.make_silent();
    let start = sandboxes.create_if_not_exists(Spec::new("job"));
    tokio::select! {
        started = start => panic!("{started:?}"),
        () = until(|| !engine.bodies().is_empty()) => {}
    }
    until(|| engine.bodies().is_empty() && sandbox_dir_count(dir.path()) == 0).await;
}

#[tokio::test]
async fn container_that_cannot_be_removed_is_left_to_next_start() {
    let (docker, engine, _engine_dir) = docker();
    let (sandboxes, dir) = sandboxes(docker).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    engine.set_stuck(true);
    sandbox.delete().await;
    let state = dir.path().join("state");
    let reap = async || {
        let state = state.clone();
        tokio::task::spawn_blocking(move || sandbox_dir::remove_orphans(&state)).await.unwrap()
    };
    assert_eq!(reap().await, 0);
    assert_eq!((engine.bodies().len(), sandbox_dir_count(dir.path())), (1, 1));
    engine.set_stuck(false);
    // Retry until the sandbox directory is gone. Do not check the result of `reap`, because a concurrent test may
    // remove the container instead, or the dropped handle may still be retrying the removal.
    while sandbox_dir_count(dir.path()) > 0 {
        reap().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(engine.bodies().is_empty());
}

#[tokio::test]
async fn report_without_engine_names_the_fix() {
    let report = Docker::agent("/agent").socket("/no/such/engine.sock").probe().await;
    assert!(!report.is_available());
    assert!(report.to_string().contains("DOCKER_HOST"), "{report}");
}

//! Tests of how guests start.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use graph_core::checkpoint::CheckpointId;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::handle::JailHandle;
use crate::{
    backend::{Backend, Handle, Jail},
    cgroup::Cgroup,
    sandbox_dir::SandboxDir,
    script_file::write_script,
    spec::Spec,
};

/// Runs a script as a guest and returns the error. The script does not call `guest::enter`.
async fn start(script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    write_script(&program, script);
    let sandbox_dir = SandboxDir::create(dir.path(), &CheckpointId::next().to_string()).unwrap();
    let guest = Jail::program(program).start(&Spec::new("x"), &sandbox_dir).await;
    guest.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn silent_program_times_out() {
    let error = start("exec sleep 1000").await;
    assert!(error.ends_with("call `guest::enter` first in its `main`"), "{error}");
}

#[tokio::test]
async fn bare_process_id_is_not_accepted_as_a_guest() {
    let mut bystander = KillOnDrop(Command::new("sleep").arg("1000").spawn().unwrap());
    let error = start(&format!("echo {}", bystander.0.id())).await;
    assert!(error.contains("did not become a guest"), "{error}");
    assert!(bystander.0.try_wait().unwrap().is_none(), "the unrelated process was killed");
}

#[tokio::test]
async fn process_that_the_stage_did_not_start_is_rejected() {
    let mut bystander = KillOnDrop(Command::new("sleep").arg("1000").spawn().unwrap());
    let error = start(&format!("echo guest {}; echo the reason >&2", bystander.0.id())).await;
    assert!(error.contains("the reason"), "{error}");
    assert!(bystander.0.try_wait().unwrap().is_none(), "the unrelated process was killed");
}

/// Without the controller `cpuacct`, a control group of version 1 does not count CPU time. If the time were reported
/// as zero, it would not be limited.
#[tokio::test]
async fn processor_time_is_sampled_if_the_control_group_does_not_count_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("memory.max_usage_in_bytes"), "4096").unwrap();
    let cgroup = Cgroup::with_memory_only(dir.path().to_owned());
    let mut handle = JailHandle::new("jail", Some(cgroup), None);
    // The script uses the processor, prints a line, and then waits until its input closes.
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo; read line";
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    handle.set_outer(child);
    stdout.read_line(&mut String::new()).await.unwrap();
    let usage = handle.usage().await.unwrap();
    assert!(usage.cpu >= Duration::from_millis(10), "{usage:?}");
    assert_eq!(usage.memory, 4096, "the control group records the memory");
}

/// A process that is killed at the end of the test.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

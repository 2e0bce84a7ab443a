//! Tests of how guests start.

use std::process::{Child, Command};

use graph_core::checkpoint::CheckpointId;

use crate::{
    backend::{Backend, Jail},
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

/// A process that is killed at the end of the test.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

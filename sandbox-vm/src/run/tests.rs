//! Tests of whole graph runs with in-process agents.

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::GraphRun;
use crate::{
    CallError, CallPolicy, Error, Isolation, Sandbox, Sandboxes, Spec, backend::InProcess,
};

async fn sandbox() -> (Sandbox, Sandboxes, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Sandboxes::builder().backend(InProcess::new(crate::testkit::agent));
    let builder = builder.isolation(Isolation::Off).state_dir(dir.path().join("state"));
    let sandboxes = builder.open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    (sandbox, sandboxes, dir)
}

/// Returns a run of a debate that makes six calls, and the policy that allows them.
fn debate() -> (GraphRun, CallPolicy) {
    let policy =
        CallPolicy::new(async |_: String, _: Value| Ok::<_, CallError>(json!("well said")));
    let policy = policy.allow("llm.chat");
    let input = Map::from_iter([("topic".to_owned(), json!("tea"))]);
    (GraphRun::new("debate").input(input).call_policy(policy.clone()), policy)
}

#[tokio::test]
async fn run_fails_when_storage_quota_is_exhausted() {
    let (sandbox, _sandboxes, _dir) = sandbox().await;
    let (run, _) = debate();
    let outcome = sandbox.run_graph(run.storage_quota(2000)).await.unwrap().finish().await;
    let Err(Error::Graph { error, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("storage quota of 2000 bytes"), "{error}");
}

#[tokio::test]
async fn policy_drops_answers_of_completed_run() {
    let (sandbox, _sandboxes, _dir) = sandbox().await;
    let (run, policy) = debate();
    let exit = sandbox.run_graph(run).await.unwrap().finish().await.unwrap();
    assert!(exit.is_done() && policy.calls_made() == 6, "{exit:?}");
    assert_eq!(policy.journal_len(), 0);
}

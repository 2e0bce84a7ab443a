//! Whole runs, in agents of this process.

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::GraphRun;
use crate::{CallError, Error, Gate, Isolation, Sandbox, Sandboxes, Spec, backend::InProcess};

async fn sandbox() -> (Sandbox, Sandboxes, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let opening = Sandboxes::new().backend(InProcess::new(crate::testkit::agent));
    let opening = opening.isolation(Isolation::Off).state_folder(folder.path().join("state"));
    let sandboxes = opening.open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    (sandbox, sandboxes, folder)
}

/// A debate of six calls.
fn debate() -> (GraphRun, Gate) {
    let gate = Gate::new(async |_: String, _: Value| Ok::<_, CallError>(json!("well said")));
    let gate = gate.allow("llm.chat");
    let input = Map::from_iter([("topic".to_owned(), json!("tea"))]);
    (GraphRun::new("debate").input(input).gate(gate.clone()), gate)
}

#[tokio::test]
async fn a_run_that_stores_more_than_it_may_fails_and_says_so() {
    let (sandbox, _sandboxes, _folder) = sandbox().await;
    let (run, _) = debate();
    let outcome = sandbox.run_graph(run.storage(2000)).await.unwrap().finish().await;
    let Err(Error::Graph { error, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("used up the 2000 bytes"), "{error}");
}

#[tokio::test]
async fn the_gate_keeps_no_answers_of_a_run_that_came_to_its_end() {
    let (sandbox, _sandboxes, _folder) = sandbox().await;
    let (run, gate) = debate();
    let exit = sandbox.run_graph(run).await.unwrap().finish().await.unwrap();
    assert!(exit.is_done() && gate.made() == 6, "{exit:?}");
    assert_eq!(gate.kept(), 0);
}

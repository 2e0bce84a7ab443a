//! How much isolation is wanted, on a machine that has none.

use sandbox_vm::{Error, Isolation, Program, Sandboxes, Spec, backend::InProcess, testkit};

#[tokio::test]
async fn where_it_is_required_and_nothing_isolates_no_sandbox_is_made() {
    let state = tempfile::tempdir().unwrap();
    let opening = || {
        let backend = InProcess::new(testkit::agent);
        Sandboxes::new().backend(backend).state_folder(state.path().join("state"))
    };
    // It is required unless something else is said.
    for refused in [opening().open().await, opening().isolation(Isolation::Required).open().await] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::NoIsolation(_)), "{error}");
        assert!(error.to_string().contains("in-process: does not isolate"), "{error}");
    }
    let sandboxes = opening().isolation(Isolation::Preferred).open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("open")).await.unwrap();
    let output = sandbox.exec(Program::new("true")).await.unwrap();
    assert!(!sandboxes.isolated() && !sandbox.isolated() && !output.isolated);
    sandbox.delete().await;
}

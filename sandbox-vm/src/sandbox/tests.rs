//! What only this crate may ask of a sandbox.

use crate::{
    Error, Isolation, Sandboxes, Spec, backend::InProcess, protocol::message::FaultCode, testkit,
};

#[tokio::test]
async fn an_agent_of_this_process_does_not_set_the_clock_of_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let opening = Sandboxes::new().backend(InProcess::new(testkit::agent));
    let opening = opening.isolation(Isolation::Off).state_folder(folder.path().join("state"));
    let sandboxes = opening.open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    let refused = sandbox.reseed(vec![0; 64]).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Guest { fault, .. } if fault.code == FaultCode::Refused),
        "{refused}"
    );
    sandbox.ping().await.unwrap();
}

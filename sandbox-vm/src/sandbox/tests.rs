//! Tests of a sandbox's crate-private operations.

use crate::{
    Error, Isolation, Sandboxes, Spec, backend::InProcess, guest::Agent,
    protocol::message::FaultCode,
};

#[tokio::test]
async fn in_process_agent_refuses_to_set_host_clock() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Sandboxes::builder().backend(InProcess::new(Agent::new));
    let builder = builder.isolation(Isolation::Off).state_dir(dir.path().join("state"));
    let sandboxes = builder.open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    let refused = sandbox.reseed(vec![0; 64]).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Guest { fault, .. } if fault.code == FaultCode::Refused),
        "{refused}"
    );
    sandbox.ping().await.unwrap();
}

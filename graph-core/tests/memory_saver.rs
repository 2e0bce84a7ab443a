//! Runs the conformance suite on the in-memory saver.

use std::sync::Arc;

use checkpoint_testkit::{Report, checkpointer};
use graph_core::checkpoint::{Checkpointer, MemorySaver};

async fn report() -> Report {
    checkpointer::run(|| async { Arc::new(MemorySaver::new()) as Arc<dyn Checkpointer> }).await
}

#[tokio::test]
async fn memory_saver_conforms() {
    report().await.assert();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_saver_conforms_on_several_threads() {
    report().await.assert();
}

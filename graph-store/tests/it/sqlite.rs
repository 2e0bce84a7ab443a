//! The saver on SQLite.

use std::sync::{Arc, Mutex};

use graph_core::checkpoint::{Checkpointer, testkit};
use graph_store::SqliteSaver;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_saver_conforms() {
    let folders = Mutex::new(Vec::new());
    let report = testkit::run(|| async {
        let folder = tempfile::tempdir().unwrap();
        let saver = SqliteSaver::open(folder.path().join("threads.db")).unwrap();
        folders.lock().unwrap().push(folder);
        Arc::new(saver) as Arc<dyn Checkpointer>
    });
    report.await.assert();
}

//! Tests of the saver.

use std::sync::Arc;

use graph_core::checkpoint::{Change, CheckpointId, CheckpointKey};
use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::{
    chain::{COMPACTION_SPAN, ChainTip, ChainTips},
    sqlite::thread_cache::{NamespaceState, NewestCheckpoint},
};

/// Only writes that append may be committed on a worker thread of the runtime.
#[test]
fn a_put_only_appends_unless_it_compacts_a_chain() {
    let (base, id) = (CheckpointId::next(), CheckpointId::next());
    let key = CheckpointKey { thread: "thread".into(), namespace: String::new(), id };
    let put = EncodedWrite::Put(EncodedCheckpoint {
        key: key.clone(),
        expected_head: Some(base),
        base: Some(base),
        made_at: 0,
        run: String::new(),
        body: Vec::new(),
        changes: vec![EncodedChange {
            field: "list".into(),
            change: Change::Extend(vec![json!(1)]),
            encoded: Vec::new(),
        }],
    });
    let mut cache = ThreadCache::default();
    assert!(!put.only_appends(&cache), "its base is not cached");
    for (depth, only_appends) in [
        (0, true),
        (COMPACTION_SPAN - 2, true),
        (COMPACTION_SPAN - 1, false),
        (COMPACTION_SPAN, true),
    ] {
        let tips = ChainTips::from([("list".to_owned(), ChainTip { link: 1, depth })]);
        let newest = NewestCheckpoint { id: base, tips: Some(Arc::new(tips)), records: None };
        cache.set_namespace(&key, NamespaceState { id: 1, newest: Some(newest) });
        assert_eq!(put.only_appends(&cache), only_appends, "{depth}");
    }
}

#[tokio::test]
async fn another_handle_of_the_process_can_lease_a_thread_before_its_row_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = [0, 1].map(|_| Sqlite::open(dir.path().join("threads.db")).unwrap());
    let lease = SqliteSaver::new(&first).lease("thread").await.unwrap();
    assert!(SqliteSaver::new(&second).lease("thread").await.is_err());
    // The writer of the first handle cannot delete the row until `resume` is sent.
    let (paused, is_paused) = oneshot::channel();
    let (resume, resumed) = oneshot::channel();
    let writer = first.clone();
    let pause = std::thread::spawn(move || {
        writer.writer().inspect_cache(|_| {
            paused.send(()).unwrap();
            resumed.blocking_recv().unwrap();
            true
        })
    });
    is_paused.await.unwrap();
    drop(lease);
    let taken = SqliteSaver::new(&second).lease("thread").await.unwrap();
    resume.send(()).unwrap();
    assert_eq!(pause.join().unwrap(), Some(true));
    // The late release does not affect the new lease.
    first.write(|_| Ok::<_, Failure<CheckpointError>>(())).await.unwrap();
    assert!(SqliteSaver::new(&first).lease("thread").await.is_err());
    drop(taken);
    SqliteSaver::new(&first).lease("thread").await.unwrap();
}

//! What a writer knows of the file stays true, whoever else writes to it.

use std::{fs, thread};

use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointId, Checkpointer, Event, History, Keep, Lookup, MemorySaver,
    NewCheckpoint, Place, TaskId, TaskRecord, Write,
};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};
use proptest::{prelude::*, sample::Index};
use serde_json::json;
use tokio::{runtime::Builder, task::JoinSet};

use crate::by_hand::new_checkpoint;

const THREADS: [&str; 3] = ["a", "b", "c"];

/// What is done to a thread, by one of two open databases.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Goes on from one of its checkpoints, the newest if there is one at all.
    Put {
        base: Option<Index>,
        is_current: bool,
    },
    /// Says what came of a task, of a stored checkpoint or of one that is to come.
    Record {
        at: Option<Index>,
    },
    Delete,
    CopyTo(usize),
    Prune,
    DeleteRun,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Put { base: None, is_current: true }),
        2 => any::<Index>().prop_map(|base| Step::Put { base: Some(base), is_current: true }),
        1 => any::<Index>().prop_map(|base| Step::Put { base: Some(base), is_current: false }),
        2 => any::<Option<Index>>().prop_map(|at| Step::Record { at }),
        1 => Just(Step::Delete),
        1 => (0..THREADS.len()).prop_map(Step::CopyTo),
        1 => Just(Step::Prune),
        1 => Just(Step::DeleteRun),
    ]
}

/// The next checkpoint's id: records may come before it.
fn next_id(number: usize) -> CheckpointId {
    CheckpointId::from_bytes((number as u128).to_be_bytes())
}

async fn ids(saver: &impl Checkpointer, thread: &str) -> Vec<CheckpointId> {
    let history = saver.list(&History::of(thread, "")).await.unwrap();
    history.into_iter().map(|it| it.place.id).collect()
}

/// Does a step, with ids from the model; gives what came of it in words.
async fn act(
    saver: &impl Checkpointer,
    known: &[CheckpointId],
    thread: &str,
    number: usize,
    step: Step,
) -> Result<(), String> {
    let pick = |index: Index| known.get(index.index(known.len().max(1))).copied();
    let place = |id| Place { thread: thread.into(), namespace: String::new(), id };
    let done = match step {
        Step::Put { base, is_current } => {
            let head = known.first().copied();
            let base = base.map_or(head, pick);
            let id = next_id(number);
            let changes = vec![
                ("last".into(), Change::Set(json!(number))),
                ("all".into(), Change::Extend(vec![json!(number)])),
            ];
            let expected_head = if is_current { head } else { base };
            let run = format!("run {}", number % 3);
            let put = new_checkpoint(thread, id, base, &run, changes);
            let put = NewCheckpoint { expected_head, ..put };
            saver.put(put).await
        }
        Step::Record { at } => {
            let at = at.and_then(pick).unwrap_or(next_id(number + 1));
            let event = Event::Failed { error: number.to_string(), handled: false };
            let task = TaskId::of(&[&number.to_be_bytes()]);
            let record = TaskRecord { task, node: "node".into(), event };
            saver.record(&place(at), vec![record]).await
        }
        Step::Delete => saver.delete_thread(thread).await,
        Step::CopyTo(to) => saver.copy_thread(thread, THREADS[to]).await,
        Step::Prune => saver.prune(&[thread.into()], Keep::Newest(2)).await.map(|_| ()),
        Step::DeleteRun => saver.delete_runs(&["run 1".into()]).await,
    };
    done.map_err(|it| it.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Two open databases on one file, in turn: each does what a saver in memory does.
    #[test]
    fn two_writers_never_act_on_what_is_not_true_any_more(
        steps in prop::collection::vec((step(), 0..THREADS.len(), any::<bool>()), 1..=40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads.db");
        let open = || {
            // That it survives a loss of power is not what is checked here.
            let settings = Sqlite::settings().synchronous(Synchronous::Normal);
            SqliteSaver::new(&settings.open(&path).unwrap())
        };
        let (one, other, model) = (open(), open(), MemorySaver::default());
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            for (number, (step, thread, by_one)) in steps.into_iter().enumerate() {
                let thread = THREADS[thread];
                let known = ids(&model, thread).await;
                let saver = if by_one { &one } else { &other };
                let expected = act(&model, &known, thread, number + 1, step).await;
                let found = act(saver, &known, thread, number + 1, step).await;
                prop_assert_eq!(found, expected, "{:?}", step);
            }
            for thread in THREADS {
                for saver in [&one, &other] {
                    let history = History::of(thread, "");
                    let found = saver.list(&history).await.unwrap();
                    let expected = model.list(&history).await.unwrap();
                    prop_assert_eq!(json!(found), json!(expected));
                }
            }
            Ok(())
        })?;
    }
}

fn put(
    thread: &str,
    id: CheckpointId,
    head: Option<CheckpointId>,
    change: Change,
) -> NewCheckpoint {
    new_checkpoint(thread, id, head, "run", vec![("field".into(), change)])
}

/// The second checkpoint is refused, and the first one undone with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_undone_is_not_known_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let saver = SqliteSaver::open(folder.path().join("threads.db")).unwrap();
    let mut threads = JoinSet::new();
    // One thread whose writes come alone, then many whose writes share commits.
    for round in [1, 40] {
        for number in 0..round {
            let saver = saver.clone();
            threads.spawn(async move {
                let (thread, id) = (format!("{round} {number}"), CheckpointId::next());
                let put = |id| put(&thread, id, None, Change::Extend(vec![json!(1)]));
                let second = put(CheckpointId::after(Some(id)));
                let both = vec![Write::Put(put(id).into()), Write::Put(second.into())];
                let undone = saver.write(both).await;
                assert!(matches!(undone, Err(CheckpointError::HeadMoved { .. })), "{undone:?}");
                saver.put(put(CheckpointId::after(Some(id)))).await.unwrap();
                let found = saver.get(&Lookup::head(thread.clone(), "")).await.unwrap().unwrap();
                assert_eq!(found.values["field"], json!([1]));
            });
        }
        while let Some(done) = threads.join_next().await {
            done.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_while_one_thread_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let saver = SqliteSaver::new(&settings.open(&path).unwrap());
    let mut head = None;
    for number in 0..800 {
        let id = CheckpointId::after(head);
        let change = Change::Set(json!(format!("{number:50000}")));
        saver.put(put("thread", id, head, change)).await.unwrap();
        head = Some(id);
    }
    // 40 MB went through it.
    let log = fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(log < 12 << 20, "{log} bytes");
}

/// Hands writes over, and waits for none of them.
async fn hand_over(saver: &SqliteSaver, threads: &[String]) {
    for thread in threads {
        let put = saver.put(put(thread, CheckpointId::next(), None, Change::Set(json!(1))));
        // Asked for once, and given up.
        tokio::select! { biased; _ = put => {}, () = std::future::ready(()) => {} }
    }
}

#[tokio::test]
async fn what_was_handed_over_is_written_before_the_file_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let saver = SqliteSaver::open(&path).unwrap();
    let lease = saver.lease("0").await.unwrap();
    let threads: Vec<_> = (0..50).map(|it| it.to_string()).collect();
    hand_over(&saver, &threads).await;
    drop((lease, saver));
    let saver = SqliteSaver::open(&path).unwrap();
    assert_eq!(saver.threads().await.unwrap().len(), threads.len());
}

/// Whoever finds no owner of a thread takes it.
#[tokio::test]
async fn the_owner_of_threads_is_there_until_all_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("threads.db");
    let saver = SqliteSaver::open(&path).unwrap();
    let threads: Vec<_> = (0..2_000).map(|it| it.to_string()).collect();
    hand_over(&saver, &threads).await;
    let closing = thread::spawn(move || drop(saver));
    let mut is_over = false;
    while !is_over {
        is_over = closing.is_finished();
        let mut names = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
        let has_owner = names.any(|it| it.to_string_lossy().contains("-owner-"));
        // Looked for after the owner: it is gone before.
        let has_log = path.with_extension("db-wal").exists();
        assert!(has_owner || !has_log);
    }
    closing.join().unwrap();
}

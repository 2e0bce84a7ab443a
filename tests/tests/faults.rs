//! Disks that fail: logs that are torn or changed, files that are changed, and calls that fail.
#![expect(
    clippy::unwrap_used,
    reason = "all of this is test code, the functions beside the tests too"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use graph_core::{
    Checkpointer, Durability,
    checkpoint::{CheckpointError, CheckpointId, History},
};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};
use graph_tests::{
    crash::{
        case::{Case, Expected, block_on},
        disk::{FailingCall, FailingDisk},
        dying::Plan,
        is_nightly,
        job::{self, Job, World},
        rng::Rng,
        saver::Home,
        seed,
        sight::Sight,
        worker::{Ended, Post, copy_database, end_of, with_suffix},
    },
    postgres::{self, Server},
};

const WORKER: &str = env!("CARGO_BIN_EXE_crash-worker");
const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];
const THREAD: &str = "job";
/// A write in the second half of the job, so that most of it lies in the log.
const LATE: usize = 70;

/// How many cases each kind of fault gets.
fn goal() -> usize {
    if is_nightly() { 1_000 } else { 60 }
}

#[test]
fn a_torn_log_leaves_a_prefix_of_the_commits() {
    let (dead, expected) = (Dead::new(), Expected::new());
    let length = dead.log.len() as u64;
    let mut rng = Rng::new(dead.seed);
    let cuts = spread(&mut rng, length);
    let seen = Mutex::new(BTreeMap::new());
    each(&cuts, |cut| {
        let sight = dead.check(&dead.log[..*cut as usize], &expected, &format!("cut at {cut}"));
        seen.lock().unwrap().insert(*cut, sight);
    });
    let seen: Vec<_> = seen.into_inner().unwrap().into_iter().collect();
    for pair in seen.windows(2) {
        let [(less, shorter), (more, longer)] = pair else { unreachable!("windows of two") };
        assert!(shorter.is_part_of(longer), "cut at {less} shows more than cut at {more}");
    }
    let heads: BTreeSet<_> = seen.iter().map(|(_, it)| it.head_step()).collect();
    println!("{} cuts of {length} bytes, heads {heads:?}", seen.len());
    assert!(heads.len() > 3, "the cuts must meet the job in the middle");
}

#[test]
fn a_flipped_bit_in_the_log_leaves_a_prefix_of_the_commits() {
    let (dead, expected) = (Dead::new(), Expected::new());
    let bits = dead.log.len() as u64 * 8;
    let mut rng = Rng::new(dead.seed);
    let flips = spread(&mut rng, bits);
    let heads = Mutex::new(BTreeSet::new());
    each(&flips, |bit| {
        let log = flipped(&dead.log, *bit);
        let sight = dead.check(&log, &expected, &format!("bit {bit} of the log"));
        heads.lock().unwrap().insert(sight.head_step());
    });
    assert!(heads.into_inner().unwrap().len() > 3, "the flips must meet the job in the middle");
}

#[test]
fn a_flipped_bit_in_the_file_is_never_believed() {
    let dead = Dead::new();
    let folder = tempfile::tempdir().unwrap();
    let path = dead.lay_out(&dead.log, folder.path());
    let whole = Texts::read(&path).unwrap();
    // The log is folded into the file when the last one closes it.
    assert!(!with_suffix(&path, "-wal").exists());
    let file = fs::read(&path).unwrap();
    // How long a page is stands in the file's own header.
    let page = u64::from(u16::from_be_bytes([file[16], file[17]])) * 8;
    let bits = file.len() as u64 * 8;
    let mut rng = Rng::new(dead.seed);
    let mut flips: Vec<u64> = spread(&mut rng, page).iter().map(|it| bits - page + it).collect();
    flips.extend(spread(&mut rng, bits));
    let noticed = Mutex::new(0);
    each(&flips, |bit| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flipped.db");
        fs::write(&path, flipped(&file, *bit)).unwrap();
        match Texts::read(&path) {
            Ok(found) => {
                let wrong = found.not_in(&whole);
                assert!(wrong.is_empty(), "bit {bit}, seed {}: {wrong:#?}", dead.seed);
            }
            Err(error) => {
                assert!(is_clear(&*error), "bit {bit}, seed {}: {error}", dead.seed);
                *noticed.lock().unwrap() += 1;
            }
        }
    });
    println!("{} of {} flips were noticed", noticed.into_inner().unwrap(), flips.len());
}

#[test]
fn a_failing_disk_is_an_error_and_no_loss() {
    let (disk, expected) = (FailingDisk::build().unwrap(), Expected::new());
    let mut cases = Vec::new();
    for durability in MODES {
        let n_calls = count_calls(&disk, durability);
        let n_cases = if is_nightly() { n_calls } else { goal() / MODES.len() };
        for index in 0..n_cases {
            let nth = 1 + index * n_calls / n_cases;
            let calls = [FailingCall::ErrorAt(nth), FailingCall::FullFrom(nth)];
            // An ordinary run has time for one of the two.
            let calls = if is_nightly() { &calls[..] } else { &calls[index % 2..][..1] };
            cases.extend(calls.iter().map(|&call| Failure { call, durability }));
        }
    }
    let failed = Mutex::new(0);
    each(&cases, |case| *failed.lock().unwrap() += usize::from(case.check(&disk, &expected)));
    let failed = failed.into_inner().unwrap();
    println!("{} injected failures, {failed} of them ended the run", cases.len());
    assert!(failed * 2 > cases.len(), "most failures must be felt");
}

#[test]
fn a_server_that_crashes_is_an_error_and_no_loss() {
    if postgres::shared().is_none() {
        return;
    }
    // One of its own: the others would notice.
    let server = Server::start().unwrap();
    let (url, expected, seed) = (server.fresh_database(), Expected::new(), seed());
    let (n_crashes, mut rng) = (if is_nightly() { 100 } else { 6 }, Rng::new(seed));
    let (mut hit, mut failed) = (0, 0);
    for index in 0..n_crashes {
        let durability = MODES[index % MODES.len()];
        let what = format!("crash {index} in mode {durability:?}, seed {seed}");
        let post = Post::on_server(WORKER, &url, format!("job {index}"), durability).unwrap();
        let mut case = Case::new(&post, durability);
        let mut child = post.command(Plan::Live).spawn().unwrap();
        let n_acks = rng.below(30) as usize;
        while post.acks().unwrap().len() < n_acks && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        hit += usize::from(child.try_wait().unwrap().is_none());
        server.restart_hard();
        match end_of(child).unwrap() {
            // It was done before, or found the server again.
            Ended::Finished(report) => assert_eq!(report.job, expected.job, "{what}"),
            Ended::Failed(words) => {
                // A server that crashes right after the thread was taken may have forgotten by whom.
                let named =
                    ["PostgreSQL", "database", "taken over"].iter().any(|it| words.contains(it));
                assert!(named && !words.contains("panicked"), "{what}: {words}");
                failed += 1;
            }
            other => panic!("{what}: {other:?}"),
        }
        case.after_death().unwrap_or_else(|it| panic!("{what}: {it}"));
        match post.run(Plan::Live).unwrap() {
            Ended::Finished(report) => assert_eq!(report.job, expected.job, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        case.at_end(&expected).unwrap_or_else(|it| panic!("{what}: {it}"));
    }
    println!("{n_crashes} crashes of the server, {hit} in the middle of a run, {failed} ended it");
    assert!(hit * 2 > n_crashes, "most crashes must come in the middle of a run");
}

/// What a worker left behind that died late in the job: a file, and a log that holds nearly all.
struct Dead {
    post: Post,
    log: Vec<u8>,
    sight: Sight,
    seed: u64,
}

impl Dead {
    fn new() -> Self {
        let post = Post::on_file(WORKER, Durability::Sync).unwrap();
        assert_eq!(post.run(Plan::After(LATE)).unwrap(), Ended::Killed);
        let log = fs::read(with_suffix(file_of(&post), "-wal")).unwrap();
        let sight = block_on(post.sight()).unwrap();
        assert!(sight.head_step().is_some_and(|it| it > 8), "{:?}", sight.head_step());
        Self { post, log, sight, seed: seed() }
    }

    /// Puts the file and this log into a folder.
    fn lay_out(&self, log: &[u8], folder: &Path) -> PathBuf {
        let path = copy_database(file_of(&self.post), folder).unwrap();
        fs::write(with_suffix(&path, "-wal"), log).unwrap();
        path
    }

    /// Opens the file with this log: it must hold a part of what was stored, without a gap, and go on from there.
    fn check(&self, log: &[u8], expected: &Expected, what: &str) -> Sight {
        let folder = tempfile::tempdir().unwrap();
        let path = self.lay_out(log, folder.path());
        let run = async {
            let saver = quick(&path)?;
            let sight = Sight::of(&*saver, THREAD).await?;
            let world = World::new(folder.path().join("world"));
            let job = job::finish(saver, THREAD, Durability::Sync, world).await?;
            Ok::<(Sight, Job), Box<dyn std::error::Error>>((sight, job))
        };
        let (sight, job) = block_on(run).unwrap_or_else(|it| panic!("{what}, {}: {it}", self.seed));
        assert!(sight.is_part_of(&self.sight), "{what}, seed {}", self.seed);
        sight.check_steps(Durability::Sync).unwrap_or_else(|it| panic!("{what}: {it}"));
        assert_eq!(job, expected.job, "{what}, seed {}", self.seed);
        sight
    }
}

fn file_of(post: &Post) -> &Path {
    match post.home() {
        Home::Sqlite(path) => path,
        Home::Postgres(url) => panic!("{url} is no file"),
    }
}

/// Opens a file that need not outlive the machine.
fn quick(path: &Path) -> Result<Arc<dyn Checkpointer>, graph_store::OpenError> {
    let database = Sqlite::settings().synchronous(Synchronous::Normal).open(path)?;
    Ok(Arc::new(SqliteSaver::new(&database)))
}

/// What can be read of a file, as text.
#[derive(Debug, Default)]
struct Texts {
    /// By id: a changed letter may show a namespace under another name.
    checkpoints: BTreeMap<CheckpointId, String>,
    records: BTreeSet<String>,
}

impl Texts {
    fn read(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        block_on(async {
            let saver = quick(path)?;
            let mut texts = Self::default();
            for (namespace, _) in saver.namespaces(THREAD).await? {
                for it in saver.list(&History::of(THREAD, &namespace)).await? {
                    let text = format!("{:?} {:?} {:?}", it.header, it.cursor, it.values);
                    texts.checkpoints.insert(it.place.id, text);
                    texts.records.extend(it.records.iter().map(|it| format!("{it:?}")));
                }
            }
            Ok(texts)
        })
    }

    /// What is here and was never stored. Some may be missing: SQLite finds rows by an index that nothing guards, and
    /// a changed key there hides its row.
    fn not_in(&self, stored: &Self) -> Vec<String> {
        let known = |(id, text): &(_, _)| stored.checkpoints.get(*id) == Some(*text);
        let checkpoints = self.checkpoints.iter().filter(|it| !known(it));
        let checkpoints = checkpoints.map(|(id, text)| format!("{id}: {text}"));
        checkpoints.chain(self.records.difference(&stored.records).cloned()).collect()
    }
}

/// Whether an error says that the file is damaged, or not ours any more: without our tables, or with other ones.
fn is_clear(error: &(dyn std::error::Error + 'static)) -> bool {
    let words = error.to_string();
    matches!(error.downcast_ref(), Some(CheckpointError::Damaged { .. }))
        || [
            "damaged",
            "malformed",
            "not a database",
            "database of another program",
            "newer one",
            "no such",
        ]
        .iter()
        .any(|it| words.contains(it))
}

/// As many places as there are cases, in order, one in each part of the whole.
fn spread(rng: &mut Rng, length: u64) -> Vec<u64> {
    let n_parts = goal() as u64;
    let part = |index: u64| index * length / n_parts;
    (0..n_parts).map(|it| part(it) + rng.below(part(it + 1) - part(it))).collect()
}

fn flipped(bytes: &[u8], bit: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    bytes
}

/// Works through cases on a few threads.
fn each<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    const THREADS: usize = 4;
    thread::scope(|scope| {
        for first in 0..THREADS {
            let check = &check;
            scope.spawn(move || cases.iter().skip(first).step_by(THREADS).for_each(check));
        }
    });
}

/// How many calls a run makes that could fail.
fn count_calls(disk: &FailingDisk, durability: Durability) -> usize {
    let post = Post::on_file(WORKER, durability).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let mut command = post.command(Plan::Live);
    disk.count_into(&mut command, file_of(&post), &count);
    let ended = end_of(command.spawn().unwrap()).unwrap();
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    let n_calls = fs::read_to_string(count).unwrap().trim().parse().unwrap();
    assert!(n_calls > 50, "the calls of SQLite are seen: {n_calls}");
    n_calls
}

/// A call that fails.
#[derive(Debug)]
struct Failure {
    call: FailingCall,
    durability: Durability,
}

impl Failure {
    /// Runs the job on the failing disk, and again on a sound one. Says whether the failure ended the first run.
    fn check(&self, disk: &FailingDisk, expected: &Expected) -> bool {
        let post = Post::on_file(WORKER, self.durability).unwrap();
        let mut case = Case::new(&post, self.durability);
        let mut command = post.command(Plan::Live);
        disk.fail_at(&mut command, file_of(&post), self.call);
        let failed = match end_of(command.spawn().unwrap()).unwrap() {
            // Some failures harm nobody: that of folding the log into the file, which is tried again later.
            Ended::Finished(report) => {
                assert_eq!(report.job, expected.job, "{self:?}");
                false
            }
            Ended::Failed(words) => {
                assert!(self.is_named_in(&words), "{self:?}: {words}");
                true
            }
            other => panic!("{self:?}: {other:?}"),
        };
        case.after_death().unwrap_or_else(|it| panic!("{self:?}: {it}"));
        match post.run(Plan::Live).unwrap() {
            Ended::Finished(report) => assert_eq!(report.job, expected.job, "{self:?}"),
            other => panic!("{self:?}: {other:?}"),
        }
        case.at_end(expected).unwrap_or_else(|it| panic!("{self:?}: {it}"));
        failed
    }

    /// Whether an error says what went wrong.
    fn is_named_in(&self, words: &str) -> bool {
        let named = match self.call {
            FailingCall::FullFrom(_) => ["disk is full", "disk failed"].as_slice(),
            FailingCall::ErrorAt(_) => &["disk failed"],
        };
        let named = named.iter().any(|it| words.contains(it));
        named && !words.contains("panicked")
    }
}

//! Tests storage faults: truncated and corrupted logs, corrupted files, and failing system calls.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use fastrand::Rng;
use graph_core::{
    Checkpointer, Durability,
    checkpoint::{CheckpointError, CheckpointId, HistoryQuery},
};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};
use graph_tests::{
    crash::{
        case::{CrashCase, Expected, block_on},
        disk::{FailingCall, FailingDisk},
        job::{self, EffectLog, Job},
        killing_hook::CrashPlan,
        location::StoreLocation,
        seed,
        stored_thread::StoredThread,
        worker::{WorkerLauncher, WorkerOutcome, copy_database, wait_for_exit, with_suffix},
    },
    postgres::{self, Server},
};
use test_support::is_nightly;

const WORKER: &str = env!("CARGO_BIN_EXE_crash-worker");
const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];
const THREAD: &str = "job";
/// Number of a write in the second half of the job. At that write, most of the data is in the write-ahead log.
const LATE_WRITE: usize = 70;

/// Returns the number of cases per kind of fault.
fn cases_per_fault() -> usize {
    if is_nightly() { 1_000 } else { 60 }
}

#[test]
fn truncated_log_leaves_a_prefix_of_the_commits() {
    let (crashed, expected) = (CrashedStore::new(), Expected::new());
    let length = crashed.log.len() as u64;
    let mut rng = Rng::with_seed(crashed.seed);
    let cuts = sample_offsets(&mut rng, length);
    let seen = Mutex::new(BTreeMap::new());
    for_each_parallel(&cuts, |cut| {
        let stored =
            crashed.check(&crashed.log[..*cut as usize], &expected, &format!("cut at {cut}"));
        seen.lock().unwrap().insert(*cut, stored);
    });
    let seen: Vec<_> = seen.into_inner().unwrap().into_iter().collect();
    for pair in seen.windows(2) {
        let [(less, shorter), (more, longer)] = pair else { unreachable!("windows of two") };
        assert!(shorter.is_subset_of(longer), "cut at {less} contains more than cut at {more}");
    }
    let heads: BTreeSet<_> = seen.iter().map(|(_, it)| it.head_step()).collect();
    println!("{} cuts of {length} bytes, heads {heads:?}", seen.len());
    assert!(heads.len() > 3, "some cuts must leave the job half done");
}

#[test]
fn flipped_bit_in_the_log_leaves_a_prefix_of_the_commits() {
    let (crashed, expected) = (CrashedStore::new(), Expected::new());
    let bits = crashed.log.len() as u64 * 8;
    let mut rng = Rng::with_seed(crashed.seed);
    let flips = sample_offsets(&mut rng, bits);
    let heads = Mutex::new(BTreeSet::new());
    for_each_parallel(&flips, |bit| {
        let log = flipped(&crashed.log, *bit);
        let stored = crashed.check(&log, &expected, &format!("bit {bit} of the log"));
        heads.lock().unwrap().insert(stored.head_step());
    });
    assert!(heads.into_inner().unwrap().len() > 3, "some flips must leave the job half done");
}

#[test]
fn flipped_bit_in_the_file_never_returns_wrong_data() {
    let crashed = CrashedStore::new();
    let dir = tempfile::tempdir().unwrap();
    let path = crashed.copy_with_log(&crashed.log, dir.path());
    let whole = StoredTexts::read(&path).unwrap();
    // Closing the last connection copies the write-ahead log into the file.
    assert!(!with_suffix(&path, "-wal").exists());
    let file = fs::read(&path).unwrap();
    // Number of bits in a page. The file header contains the page size in bytes.
    let page = u64::from(u16::from_be_bytes([file[16], file[17]])) * 8;
    let bits = file.len() as u64 * 8;
    let mut rng = Rng::with_seed(crashed.seed);
    let mut flips: Vec<u64> =
        sample_offsets(&mut rng, page).iter().map(|it| bits - page + it).collect();
    flips.extend(sample_offsets(&mut rng, bits));
    let noticed = Mutex::new(0);
    for_each_parallel(&flips, |bit| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flipped.db");
        fs::write(&path, flipped(&file, *bit)).unwrap();
        match StoredTexts::read(&path) {
            Ok(found) => {
                let wrong = found.missing_from(&whole);
                assert!(wrong.is_empty(), "bit {bit}, seed {}: {wrong:#?}", crashed.seed);
            }
            Err(error) => {
                assert!(reports_damage(&*error), "bit {bit}, seed {}: {error}", crashed.seed);
                *noticed.lock().unwrap() += 1;
            }
        }
    });
    println!("{} of {} flips were detected", noticed.into_inner().unwrap(), flips.len());
}

#[test]
fn failing_disk_causes_an_error_and_no_data_loss() {
    let (disk, expected) = (FailingDisk::build().unwrap(), Expected::new());
    let mut cases = Vec::new();
    for durability in MODES {
        let n_calls = count_calls(&disk, durability);
        let n_cases = if is_nightly() { n_calls } else { cases_per_fault() / MODES.len() };
        for index in 0..n_cases {
            let nth = 1 + index * n_calls / n_cases;
            let calls = [FailingCall::ErrorAt(nth), FailingCall::FullFrom(nth)];
            // Outside nightly runs, only one of the two failures is tested at each call.
            let calls = if is_nightly() { &calls[..] } else { &calls[index % 2..][..1] };
            cases.extend(calls.iter().map(|&call| InjectedFailure { call, durability }));
        }
    }
    let failed = Mutex::new(0);
    for_each_parallel(&cases, |case| {
        *failed.lock().unwrap() += usize::from(case.check(&disk, &expected));
    });
    let failed = failed.into_inner().unwrap();
    println!("{} injected failures, {failed} of them ended the run", cases.len());
    assert!(failed * 2 > cases.len(), "most failures must end the run");
}

#[test]
fn server_crash_causes_an_error_and_no_data_loss() {
    if postgres::shared().is_none() {
        return;
    }
    // The test uses a separate server, because the crash would disturb other tests.
    let server = Server::start().unwrap();
    let (url, expected, seed) = (server.fresh_database(), Expected::new(), seed());
    let (n_crashes, mut rng) = (if is_nightly() { 100 } else { 6 }, Rng::with_seed(seed));
    let (mut hit, mut failed) = (0, 0);
    // A run that ends before the server crashes does not count.
    for index in 0.. {
        if hit == n_crashes {
            break;
        }
        assert!(index < 20 * n_crashes, "the runs end before the server crashes");
        let durability = MODES[index % MODES.len()];
        let what = format!("crash {index} in mode {durability:?}, seed {seed}");
        let launcher =
            WorkerLauncher::on_server(WORKER, &url, format!("job {index}"), durability).unwrap();
        let mut case = CrashCase::new(&launcher, durability);
        let mut child = launcher.command(CrashPlan::NoCrash).spawn().unwrap();
        let n_acks = rng.usize(..30);
        while launcher.acks().unwrap().len() < n_acks && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        hit += usize::from(child.try_wait().unwrap().is_none());
        server.crash_and_restart();
        match wait_for_exit(child).unwrap() {
            // The worker finished before the crash, or it reconnected.
            WorkerOutcome::Finished(report) => assert_eq!(report.job, expected.job, "{what}"),
            WorkerOutcome::Failed(stderr) => {
                // If the server crashes right after the lease was acquired, the lease may be lost. The error then says
                // that the thread was taken by another run.
                let named = ["PostgreSQL", "database", "taken by another run"]
                    .iter()
                    .any(|it| stderr.contains(it));
                assert!(named && !stderr.contains("panicked"), "{what}: {stderr}");
                failed += 1;
            }
            other => panic!("{what}: {other:?}"),
        }
        case.after_crash().unwrap_or_else(|it| panic!("{what}: {it}"));
        match launcher.run(CrashPlan::NoCrash).unwrap() {
            WorkerOutcome::Finished(report) => assert_eq!(report.job, expected.job, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        case.at_end(&expected).unwrap_or_else(|it| panic!("{what}: {it}"));
    }
    println!("{n_crashes} server crashes during a run, {failed} ended the run");
}

/// The store that a worker left behind when it was killed late in the job. It consists of a file and a write-ahead
/// log that contains most of the data.
struct CrashedStore {
    launcher: WorkerLauncher,
    log: Vec<u8>,
    stored: StoredThread,
    seed: u64,
}

impl CrashedStore {
    fn new() -> Self {
        let launcher = WorkerLauncher::on_file(WORKER, Durability::Sync).unwrap();
        assert_eq!(launcher.run(CrashPlan::After(LATE_WRITE)).unwrap(), WorkerOutcome::Killed);
        let log = fs::read(with_suffix(file_of(&launcher), "-wal")).unwrap();
        let stored = block_on(launcher.stored()).unwrap();
        assert!(stored.head_step().is_some_and(|it| it > 8), "{:?}", stored.head_step());
        Self { launcher, log, stored, seed: seed() }
    }

    /// Copies the file and writes this write-ahead log next to it.
    fn copy_with_log(&self, log: &[u8], dir: &Path) -> PathBuf {
        let path = copy_database(file_of(&self.launcher), dir).unwrap();
        fs::write(with_suffix(&path, "-wal"), log).unwrap();
        path
    }

    /// Opens a copy of the file with this write-ahead log. The store must contain a prefix of the data without
    /// gaps, and the job must resume from it.
    fn check(&self, log: &[u8], expected: &Expected, what: &str) -> StoredThread {
        let dir = tempfile::tempdir().unwrap();
        let path = self.copy_with_log(log, dir.path());
        let run = async {
            let saver = open_without_fsync(&path)?;
            let stored = StoredThread::of(&*saver, THREAD).await?;
            let effect_log = EffectLog::new(dir.path().join("effects"));
            let job = job::finish(saver, THREAD, Durability::Sync, effect_log).await?;
            Ok::<(StoredThread, Job), Box<dyn std::error::Error>>((stored, job))
        };
        let (stored, job) =
            block_on(run).unwrap_or_else(|it| panic!("{what}, {}: {it}", self.seed));
        assert!(stored.is_subset_of(&self.stored), "{what}, seed {}", self.seed);
        stored.check_steps(Durability::Sync).unwrap_or_else(|it| panic!("{what}: {it}"));
        assert_eq!(job, expected.job, "{what}, seed {}", self.seed);
        stored
    }
}

fn file_of(launcher: &WorkerLauncher) -> &Path {
    match launcher.location() {
        StoreLocation::Sqlite(path) => path,
        StoreLocation::Postgres(url) => panic!("{url} is not a file"),
    }
}

/// Opens a file. Commits do not wait for an fsync.
fn open_without_fsync(path: &Path) -> Result<Arc<dyn Checkpointer>, graph_store::OpenError> {
    let database = Sqlite::settings().synchronous(Synchronous::Normal).open(path)?;
    Ok(Arc::new(SqliteSaver::new(&database)))
}

/// All data that can be read from a file, as text.
#[derive(Debug, Default)]
struct StoredTexts {
    /// Checkpoints, keyed by id and not by namespace, because a corrupted namespace name may still be readable.
    checkpoints: BTreeMap<CheckpointId, String>,
    records: BTreeSet<String>,
}

impl StoredTexts {
    fn read(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        block_on(async {
            let saver = open_without_fsync(path)?;
            let mut texts = Self::default();
            for (namespace, _) in saver.namespaces(THREAD).await? {
                for it in saver.list(&HistoryQuery::new(THREAD, &namespace)).await? {
                    let text = format!("{:?} {:?} {:?}", it.header, it.frontier, it.values);
                    texts.checkpoints.insert(it.key.id, text);
                    texts.records.extend(it.records.iter().map(|it| format!("{it:?}")));
                }
            }
            Ok(texts)
        })
    }

    /// Returns the data in `self` that is not in `stored`. Data that is only in `stored` is not returned, because a
    /// corrupted index key can hide a row.
    fn missing_from(&self, stored: &Self) -> Vec<String> {
        let known = |(id, text): &(_, _)| stored.checkpoints.get(*id) == Some(*text);
        let checkpoints = self.checkpoints.iter().filter(|it| !known(it));
        let checkpoints = checkpoints.map(|(id, text)| format!("{id}: {text}"));
        checkpoints.chain(self.records.difference(&stored.records).cloned()).collect()
    }
}

/// Returns whether an error reports that the file is damaged or does not belong to this program.
fn reports_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    let stderr = error.to_string();
    matches!(error.downcast_ref(), Some(CheckpointError::Corrupt { .. }))
        || [
            "damaged", "malformed", "not a database", "belong to another program", "newer version",
            "no such",
        ]
        .iter()
        .any(|it| stderr.contains(it))
}

/// Divides the length into as many equal parts as there are cases, and returns one random offset in each part.
fn sample_offsets(rng: &mut Rng, length: u64) -> Vec<u64> {
    let n_parts = cases_per_fault() as u64;
    let part = |index: u64| index * length / n_parts;
    (0..n_parts).map(|it| rng.u64(part(it)..part(it + 1))).collect()
}

fn flipped(bytes: &[u8], bit: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    bytes
}

/// Runs a check for all cases on a few OS threads.
fn for_each_parallel<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    const THREADS: usize = 4;
    thread::scope(|scope| {
        for first in 0..THREADS {
            let check = &check;
            scope.spawn(move || cases.iter().skip(first).step_by(THREADS).for_each(check));
        }
    });
}

/// Counts the system calls in a run at which a failure can be injected.
fn count_calls(disk: &FailingDisk, durability: Durability) -> usize {
    let launcher = WorkerLauncher::on_file(WORKER, durability).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let mut command = launcher.command(CrashPlan::NoCrash);
    disk.count_into(&mut command, file_of(&launcher), &count);
    let ended = wait_for_exit(command.spawn().unwrap()).unwrap();
    assert!(matches!(ended, WorkerOutcome::Finished(_)), "{ended:?}");
    let n_calls = fs::read_to_string(count).unwrap().trim().parse().unwrap();
    assert!(n_calls > 50, "the library does not intercept SQLite's calls: {n_calls}");
    n_calls
}

/// A failure that is injected into one or more system calls of a run.
#[derive(Debug)]
struct InjectedFailure {
    call: FailingCall,
    durability: Durability,
}

impl InjectedFailure {
    /// Runs the job on the failing disk, and then again on a working disk. Returns whether the failure ended the
    /// first run.
    fn check(&self, disk: &FailingDisk, expected: &Expected) -> bool {
        let launcher = WorkerLauncher::on_file(WORKER, self.durability).unwrap();
        let mut case = CrashCase::new(&launcher, self.durability);
        let mut command = launcher.command(CrashPlan::NoCrash);
        disk.fail_at(&mut command, file_of(&launcher), self.call);
        let failed = match wait_for_exit(command.spawn().unwrap()).unwrap() {
            // Some failures are harmless. For example, a failed WAL checkpoint is retried later.
            WorkerOutcome::Finished(report) => {
                assert_eq!(report.job, expected.job, "{self:?}");
                false
            }
            WorkerOutcome::Failed(stderr) => {
                assert!(self.is_reported_in(&stderr), "{self:?}: {stderr}");
                true
            }
            other => panic!("{self:?}: {other:?}"),
        };
        case.after_crash().unwrap_or_else(|it| panic!("{self:?}: {it}"));
        match launcher.run(CrashPlan::NoCrash).unwrap() {
            WorkerOutcome::Finished(report) => assert_eq!(report.job, expected.job, "{self:?}"),
            other => panic!("{self:?}: {other:?}"),
        }
        case.at_end(expected).unwrap_or_else(|it| panic!("{self:?}: {it}"));
        failed
    }

    /// Returns whether the error output states the cause.
    fn is_reported_in(&self, stderr: &str) -> bool {
        let named = match self.call {
            FailingCall::FullFrom(_) => ["disk is full", "disk failed"].as_slice(),
            FailingCall::ErrorAt(_) => &["disk failed"],
        };
        let named = named.iter().any(|it| stderr.contains(it));
        named && !stderr.contains("panicked")
    }
}

//! Every limit, by a program that runs into it: the right status, and nothing left behind.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use reflexion_graph::{
    Job, Limits,
    execution::{Execution, Status},
    failure::{Class, Failure},
    workshop::{Options, Workshop},
};

use crate::{PROGRAM, nothing_left, run, workshop};

fn job(limits: Limits) -> Job {
    Job { limits, ..Job::new("break a limit") }
}

fn usual() -> Limits {
    Limits { timeout: 20.0, ..Limits::default() }
}

#[track_caller]
fn check(execution: &Execution, status: Status) {
    assert_eq!(execution.status, status, "{execution:?}");
    assert!(execution.isolated);
}

/// The kernel refused what was too much, and the program ended by its own exception.
#[track_caller]
fn refused(execution: &Execution, why: &str) {
    check(execution, Status::Error);
    let failure = Failure::of(execution);
    assert!(failure.class == Class::Resources && failure.error.contains(why), "{execution:?}");
}

#[tokio::test]
async fn time() {
    let started = Instant::now();
    let limits = Limits { timeout: 0.5, ..Limits::default() };
    let execution =
        run("print('before', flush=True)\nimport time\ntime.sleep(60)", &job(limits)).await;
    check(&execution, Status::Timeout);
    assert_eq!(execution.stdout, "before\n");
    assert!(execution.duration_ms >= 500 && started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn processor_time() {
    let limits = Limits { cpu_time: Some(0.3), ..usual() };
    let execution = run("while True: pass", &job(limits)).await;
    check(&execution, Status::CpuTime);
    assert!(execution.cpu_ms >= 300, "{execution:?}");
}

#[tokio::test]
async fn memory() {
    // A sandbox's memory is bounded by the kernel, and a smaller wish of a job by a look now and then.
    let hog = "import time\nheld = []\nwhile True:\n    held.append(bytearray(1 << 20))\n    time.sleep(0.002)";
    let execution = run(hog, &job(Limits { memory: 128, ..usual() })).await;
    check(&execution, Status::OutOfMemory);
    assert!(execution.memory_mb < 200, "{execution:?}");
    let hog = "held = []\nwhile True: held.append(bytearray(1 << 20))";
    check(&run(hog, &job(usual())).await, Status::OutOfMemory);
    // Within it there is no objection, and what is used is told.
    let execution = run("held = bytearray(100 << 20); print(len(held))", &job(usual())).await;
    check(&execution, Status::Success);
    assert!((100..256).contains(&execution.memory_mb), "{execution:?}");
}

#[tokio::test]
async fn memory_is_not_passed_by_files_or_swap() {
    // Files in memory count too, and a limit on memory without one on swap would be none.
    let hog = "import mmap\nheld = []\nwhile True:\n    it = mmap.mmap(-1, 4 << 20)\n    it.write(b'x' * (4 << 20))\n    held.append(it)";
    check(&run(hog, &job(Limits { memory: 96, ..usual() })).await, Status::OutOfMemory);
}

#[tokio::test]
async fn processes() {
    let bomb =
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass";
    check(&run(bomb, &job(usual())).await, Status::TooManyProcesses);
}

#[tokio::test]
async fn disk() {
    for path in ["full", "/tmp/full"] {
        let fill = format!(
            "with open('{path}', 'wb') as file:\n    while True: file.write(b'x' * (1 << 20))"
        );
        let execution = run(&fill, &job(usual())).await;
        check(&execution, Status::DiskFull);
        assert!(execution.stderr.contains("OSError"), "{execution:?}");
    }
    // It is 64 MiB: so much fits, and more does not.
    let fits = "open('file', 'wb').write(b'x' * (60 << 20)); print('fits')";
    check(&run(fits, &job(usual())).await, Status::Success);
    let too_large = "open('file', 'wb').truncate(65 << 20)";
    refused(&run(too_large, &job(usual())).await, "File too large");
}

#[tokio::test]
async fn files() {
    let fill = "for number in range(10 ** 6): open(f'file-{number}', 'w').close()";
    check(&run(fill, &job(usual())).await, Status::TooManyFiles);
    let open = "held = [open('/dev/null') for _ in range(10 ** 5)]";
    refused(&run(open, &job(usual())).await, "Too many open files");
}

#[tokio::test]
async fn output() {
    let endless = "print('first')\nimport sys\nn = 0\nwhile True:\n    n += 1\n    sys.stdout.write(f'{n}\\n')";
    let execution = run(endless, &job(usual())).await;
    check(&execution, Status::TooMuchOutput);
    assert!(execution.stdout.starts_with("first\n1\n2\n"));
    assert!(execution.stdout.contains("bytes left out"));
    // Its tail is kept as well: the last numbers of the first MiB.
    let last = execution.stdout.lines().rev().nth(1).unwrap();
    assert!(last.parse::<u64>().unwrap() > 100_000, "{last}");
    assert!(execution.stdout.len() < 20_000);
}

#[tokio::test]
async fn outputs_are_apart() {
    let both = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)";
    let execution = run(both, &job(usual())).await;
    check(&execution, Status::Error);
    assert_eq!((&*execution.stdout, &*execution.stderr), ("out\n", "err\n"));
    assert_eq!(execution.exit_code, Some(7));
    let killed = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)";
    check(&run(killed, &job(usual())).await, Status::Killed);
}

#[tokio::test]
async fn processor_share() {
    let spin = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass\nprint(time.process_time())";
    let (workshop, _folder) = workshop(Options { pool: 1, cpus: 0.1, ..Options::default() }).await;
    let execution = workshop.run(spin, &[], &job(usual())).await.unwrap();
    check(&execution, Status::Success);
    let used: f64 = execution.stdout.trim().parse().unwrap();
    assert!(used < 0.5, "of three seconds it had {used}");
    workshop.close().await;
}

#[tokio::test]
async fn each_sandbox_is_used_once_and_the_pool_stays_within_its_size() {
    let (workshop, folder) = workshop(Options { pool: 2, ..Options::default() }).await;
    let job = job(usual());
    let runs = (0..8).map(|number| {
        let (workshop, job) = (workshop.clone(), job.clone());
        tokio::spawn(async move {
            let code = format!(
                "import os\nprint(sorted(os.listdir('.')))\nopen('left-{number}', 'w').write('secret')"
            );
            workshop.run(&code, &[], &job).await.unwrap()
        })
    });
    let mut names = std::collections::BTreeSet::new();
    for run in runs.collect::<Vec<_>>() {
        let execution = run.await.unwrap();
        assert_eq!(execution.stdout, "['main.py']\n");
        names.insert(execution.sandbox);
        assert!(workshop.sandboxes().list().len() <= 2);
    }
    assert_eq!(names.len(), 8);
    let stats = workshop.stats();
    assert!(stats.most_in_use <= 2 && stats.executions == 8 && stats.in_use == 0, "{stats:?}");
    workshop.close().await;
    nothing_left(&workshop, &folder).await;
    assert!(workshop.run("print(1)", &[], &job).await.is_err());
}

#[tokio::test]
async fn a_sandbox_that_does_not_start_is_tried_again() {
    // The agent is not where it was for a while, so that no guest starts.
    let folder = tempfile::tempdir().unwrap();
    let (agent, away) = (folder.path().join("agent"), folder.path().join("away"));
    fs::hard_link(PROGRAM, &agent).or_else(|_| fs::copy(PROGRAM, &agent).map(drop)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let options = Options { pool: 1, agent: Some(agent.clone()), ..Options::default() };
    let workshop = Workshop::open(options).await.unwrap();
    while workshop.stats().pool.ready == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::rename(&agent, &away).unwrap();
    // The one that was ready is used up; the next has to be made.
    let job = job(usual());
    assert!(workshop.run("print(1)", &[], &job).await.unwrap().success());
    let (again, back) = tokio::join!(workshop.run("print(2)", &[], &job), async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        fs::rename(&away, &agent)
    });
    back.unwrap();
    assert_eq!(again.unwrap().stdout, "2\n");
    workshop.close().await;
}

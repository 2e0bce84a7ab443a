//! Tests each limit with a program that exceeds it. The status must be correct, and nothing may be left behind.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use reflexion_graph::{
    Job, Limits,
    execution::{Execution, Status},
    executor::{Executor, Options},
    failure::{Class, Failure},
};

use sandbox_vm::{report::IsolationLevel, sandbox_dir::Leftover};

use crate::{MAX_TIMEOUT, PROGRAM, assert_cleaned_up, executor, run, small_executor};

fn job(limits: Limits) -> Job {
    Job { limits, ..Job::new("break a limit") }
}

fn default_limits() -> Limits {
    Limits { timeout: MAX_TIMEOUT, ..Limits::default() }
}

#[track_caller]
fn check(execution: &Execution, status: Status) {
    assert_eq!(execution.status, status, "{execution:?}");
    assert_eq!(execution.isolation, Some(IsolationLevel::Process));
}

/// Asserts that a system call failed because of a limit and that the resulting exception ended the program.
#[track_caller]
fn check_refused(execution: &Execution, why: &str) {
    check(execution, Status::Error);
    let failure = Failure::of(execution);
    assert!(failure.class == Class::Resources && failure.error.contains(why), "{execution:?}");
}

#[tokio::test]
async fn wall_clock_limit_is_enforced() {
    let code = "print('before', flush=True)\nimport time\ntime.sleep(1000)";
    let run = async |timeout: f64| {
        let execution = run(code, &job(Limits { timeout, ..Limits::default() })).await;
        check(&execution, Status::Timeout);
        assert!(execution.duration_ms as f64 >= timeout * 1000.0, "{execution:?}");
        execution.stdout
    };
    let mut stdout = run(10.0).await;
    if stdout.is_empty() {
        // On a busy machine, the interpreter may take longer to start.
        stdout = run(MAX_TIMEOUT).await;
    }
    assert_eq!(stdout, "before\n");
}

#[tokio::test]
async fn cpu_time_limit_is_enforced() {
    let limits = Limits { cpu_time: Some(0.3), ..default_limits() };
    let execution = run("while True: pass", &job(limits)).await;
    check(&execution, Status::CpuTime);
    assert!(execution.cpu_ms >= 300, "{execution:?}");
}

#[tokio::test]
async fn memory_limit_is_enforced() {
    // A job's memory limit is enforced even if it is lower than the sandbox's limit. The kernel enforces only the
    // sandbox's limit; the job's limit is enforced by polling, so the program holds its memory until it is ended.
    let hog = "import time\nheld = bytearray(150 << 20)\ntime.sleep(1000)";
    let execution = run(hog, &job(Limits { memory: 128, ..default_limits() })).await;
    check(&execution, Status::OutOfMemory);
    assert!((128..200).contains(&execution.memory_mb), "{execution:?}");
    let hog = "held = []\nwhile True: held.append(bytearray(1 << 20))";
    let execution = run(hog, &job(default_limits())).await;
    check(&execution, Status::OutOfMemory);
    assert!((256..300).contains(&execution.memory_mb), "{execution:?}");
    // A program that stays below the limit succeeds, and its memory usage is reported.
    let execution =
        run("held = bytearray(100 << 20); print(len(held))", &job(default_limits())).await;
    check(&execution, Status::Success);
    assert!((100..256).contains(&execution.memory_mb), "{execution:?}");
}

#[tokio::test]
async fn process_limit_is_enforced() {
    let bomb =
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass";
    check(&run(bomb, &job(default_limits())).await, Status::TooManyProcesses);
}

#[tokio::test]
async fn disk_quota_is_enforced() {
    for path in ["full", "/tmp/full"] {
        let fill = format!(
            "with open('{path}', 'wb') as file:\n    while True: file.write(b'x' * (1 << 20))"
        );
        let execution = run(&fill, &job(default_limits())).await;
        check(&execution, Status::DiskFull);
        assert!(execution.stderr.contains("OSError"), "{execution:?}");
    }
    // The quota is 64 MiB.
    let fits = "open('file', 'wb').write(b'x' * (60 << 20)); print('fits')";
    check(&run(fits, &job(default_limits())).await, Status::Success);
    let too_large = "open('file', 'wb').truncate(65 << 20)";
    check_refused(&run(too_large, &job(default_limits())).await, "File too large");
}

#[tokio::test]
async fn file_limits_are_enforced() {
    let fill = "for number in range(10 ** 6): open(f'file-{number}', 'w').close()";
    check(&run(fill, &job(default_limits())).await, Status::TooManyFiles);
    let open = "held = [open('/dev/null') for _ in range(10 ** 5)]";
    let execution = run(open, &job(default_limits())).await;
    check(&execution, Status::TooManyFiles);
    assert!(execution.stderr.contains("Too many open files"), "{execution:?}");
}

#[tokio::test]
async fn output_limit_is_enforced() {
    let endless = "print('first')\nimport sys\nn = 0\nwhile True:\n    n += 1\n    sys.stdout.write(f'{n}\\n')";
    let execution = run(endless, &job(default_limits())).await;
    check(&execution, Status::TooMuchOutput);
    assert!(execution.stdout.starts_with("first\n1\n2\n"));
    assert!(execution.stdout.contains("bytes omitted"));
    // The end of the output is kept too. It consists of the last numbers before the output limit of 1 MiB.
    let last = execution.stdout.lines().rev().nth(1).unwrap();
    assert!(last.parse::<u64>().unwrap() > 100_000, "{last}");
    assert!(execution.stdout.len() < 20_000);
}

#[tokio::test]
async fn stdout_and_stderr_are_separate() {
    let both = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)";
    let execution = run(both, &job(default_limits())).await;
    check(&execution, Status::Error);
    assert_eq!((&*execution.stdout, &*execution.stderr), ("out\n", "err\n"));
    assert_eq!(execution.exit_code, Some(7));
    let killed = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)";
    check(&run(killed, &job(default_limits())).await, Status::Killed);
}

#[tokio::test]
async fn cpu_share_is_enforced() {
    let spin = "import time\nstart, used = time.monotonic(), time.process_time()\n\
        while time.monotonic() < start + 3: pass\n\
        print((time.process_time() - used) / (time.monotonic() - start))";
    let (executor, _folder) = executor(Options { pool: 1, cpus: 0.1, ..Options::default() }).await;
    let execution = executor.run(spin, &[], &job(default_limits())).await.unwrap();
    check(&execution, Status::Success);
    let share: f64 = execution.stdout.trim().parse().unwrap();
    assert!(share < 0.2, "used {share} of a processor");
    executor.close().await;
}

#[tokio::test]
async fn sandboxes_are_used_once_and_the_pool_size_is_respected() {
    let (executor, dir) = executor(Options { pool: 2, ..Options::default() }).await;
    let job = job(default_limits());
    let runs = (0..8).map(|number| {
        let (executor, job) = (executor.clone(), job.clone());
        tokio::spawn(async move {
            let code = format!(
                "import os\nprint(sorted(os.listdir('.')))\nopen('left-{number}', 'w').write('secret')"
            );
            executor.run(&code, &[], &job).await.unwrap()
        })
    });
    let mut names = std::collections::BTreeSet::new();
    for run in runs.collect::<Vec<_>>() {
        let execution = run.await.unwrap();
        assert_eq!(execution.stdout, "['main.py']\n");
        names.insert(execution.sandbox);
        assert!(executor.sandboxes().list().len() <= 2);
    }
    assert_eq!(names.len(), 8);
    let stats = executor.stats();
    assert!(stats.peak_in_use <= 2 && stats.executions == 8 && stats.in_use == 0, "{stats:?}");
    executor.close().await;
    assert_cleaned_up(&executor, &dir).await;
    assert!(executor.run("print(1)", &[], &job).await.is_err());
}

#[tokio::test]
async fn starting_a_sandbox_is_retried() {
    // Rename the agent program, so that no guest can start.
    let dir = tempfile::tempdir().unwrap();
    let (agent, away) = (dir.path().join("agent"), dir.path().join("away"));
    // If this process copied the program, a program that another test starts meanwhile could inherit the open file, and
    // the kernel does not execute a file that is open for writing.
    assert!(Command::new("cp").arg(PROGRAM).arg(&agent).status().unwrap().success());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let options = Options { pool: 1, agent: Some(agent.clone()), ..Options::default() };
    let executor = Executor::open(options).await.unwrap();
    while executor.stats().pool.ready == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::rename(&agent, &away).unwrap();
    // Use up the idle sandbox, so that another one has to be started for the next program.
    let job = job(default_limits());
    assert!(executor.run("print(1)", &[], &job).await.unwrap().success());
    let mut again = std::pin::pin!(executor.run("print(2)", &[], &job));
    let again = tokio::select! {
        // Polling the timer first ensures that the program is renamed back before the last attempt to start a sandbox.
        biased;
        () = tokio::time::sleep(Duration::from_millis(250)) => {
            fs::rename(&away, &agent).unwrap();
            again.await
        }
        again = &mut again => again,
    };
    assert_eq!(again.unwrap().stdout, "2\n");
    executor.close().await;
}

#[tokio::test]
async fn output_before_a_crash_of_the_sandbox_is_reported() {
    let (executor, dir) = small_executor().await;
    let code = "import sys, time\nprint('before', flush=True)\nprint('a warning', file=sys.stderr, flush=True)\n\
                open('printed', 'w').close()\ntime.sleep(1000)";
    let crash = async {
        let sandbox = 'found: loop {
            for sandbox in executor.sandboxes().list() {
                if sandbox.fs().read("printed").await.is_ok() {
                    break 'found sandbox;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        // By the time the guest has answered all these requests, it has sent the output of the program.
        for _ in 0..100 {
            sandbox.ping().await.unwrap();
        }
        kill_agents(&dir.path().join("state"));
    };
    let job = job(default_limits());
    let (execution, ()) = tokio::join!(executor.run(code, &[], &job), crash);
    let execution = execution.unwrap();
    check(&execution, Status::Crashed);
    assert_eq!(execution.stdout, "before\n");
    let reason = "the guest exited unexpectedly";
    let stderr = &execution.stderr;
    assert!(stderr.starts_with("a warning\n") && stderr.contains(reason), "{execution:?}");
    executor.close().await;
}

/// Kills the agents of all sandboxes in the state directory. No program can do that, because its agent is process 1.
fn kill_agents(state: &Path) {
    for sandbox in fs::read_dir(state).unwrap() {
        let leftovers = sandbox.unwrap().path().join("leftovers");
        let leftovers = fs::read_to_string(leftovers).unwrap_or_default();
        for line in leftovers.lines() {
            let Leftover::Process { pid, .. } = serde_json::from_str(line).unwrap() else {
                continue;
            };
            let agents = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            let kill = Command::new("sh").arg("-c").arg(format!("kill -KILL {agents}")).status();
            assert!(kill.unwrap().success());
        }
    }
}

//! Tests that programs can use packages from a local directory.

use std::{fs, process::Command};

use llm::{ErrorKind, Llm, Reply, Request, Scripted};
use reflexion_graph::{
    Job, Limits,
    execution::Status,
    executor::{Executor, ExecutorError, Options},
    failure::Class,
    wheels::{LIST_FILE, WheelError, Wheels},
};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::{MAX_TIMEOUT, PROGRAM, readable_dir, session, sessions, skipped};

const WHEEL: &str = "greeting-1.0-py3-none-any.whl";

/// Creates a directory with a listed and an unlisted package. The listed package contains a module and a large data
/// file.
fn dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let make = "import zipfile\nwith zipfile.ZipFile('greeting-1.0-py3-none-any.whl', 'w', zipfile.ZIP_DEFLATED) as file:\n    \
        file.writestr('greeting/__init__.py', 'WORD = \"hello\"\\n')\n    file.writestr('greeting-1.0.dist-info/METADATA', 'Name: greeting\\n')\n    \
        file.writestr('greeting/data', b'x' * (80 << 20))\n    file.writestr('../outside.py', 'x')";
    let made = Command::new("python3").args(["-c", make]).current_dir(&dir).status().unwrap();
    assert!(made.success());
    fs::copy(dir.path().join(WHEEL), dir.path().join("other-1.0-py3-none-any.whl")).unwrap();
    let bytes = fs::read(dir.path().join(WHEEL)).unwrap();
    let hash = hex::encode(Sha256::digest(&bytes));
    let list = format!("[[wheel]]\nname = \"greeting\"\nfile = \"{WHEEL}\"\nsha256 = \"{hash}\"\n");
    fs::write(dir.path().join(LIST_FILE), list).unwrap();
    dir
}

#[tokio::test]
async fn listed_packages_are_available_and_read_only() {
    let dir = dir();
    for backend in ["jail", "gvisor"] {
        let wheels = Wheels::open(dir.path()).unwrap();
        let state_dir = readable_dir();
        let options = Options {
            backend: Some(backend.to_owned()),
            pool: 1,
            wheels,
            agent: Some(PROGRAM.into()),
            cache: Some(state_dir.path().join("packages")),
            state: Some(state_dir.path().join("state")),
            ..Options::default()
        };
        match Executor::open(options).await {
            Ok(executor) => check(&executor).await,
            Err(problem) if backend == "jail" => panic!("{problem}"),
            Err(problem) => skipped(backend, &problem),
        }
        assert!(!state_dir.path().join("packages/outside.py").exists());
    }
}

async fn check(executor: &Executor) {
    let limits = Limits { timeout: MAX_TIMEOUT, ..Limits::default() };
    let job = Job { limits, ..Job::new("greet") };
    // The package can be larger than the disk quota. It is read-only and is the only package in the directory.
    let code = "import greeting, os\nprint(greeting.WORD, os.path.getsize(greeting.__path__[0] + '/data') >> 20)\n\
        print([it for it in os.listdir('/packages') if it[0] != '.'])\n\
        for path in [greeting.__file__, '/packages/new']:\n    \
            try:\n        open(path, 'w')\n        print('changed', path)\n    except OSError as error:\n        print(error.strerror)";
    let dependencies = ["Greeting>=1.0".to_owned(), "os".to_owned()];
    let execution = executor.run(code, &dependencies, &job).await.unwrap();
    let (stdout, error) = (execution.stdout, execution.stderr);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[..2], ["hello 80", "['greeting']"], "{stdout} {error}");
    assert!(!stdout.contains("changed") && lines.len() == 4, "{stdout} {error}");
    // A program that does not declare the package cannot import it.
    let execution = executor.run("import greeting", &[], &job).await.unwrap();
    assert!(execution.stderr.contains("ModuleNotFoundError"), "{execution:?}");
    executor.close().await;
}

#[tokio::test]
async fn files_with_another_hash_are_rejected_before_anything_runs() {
    let dir = dir();
    let options = |cache: &TempDir| Options {
        pool: 1,
        wheels: Wheels::open(dir.path()).unwrap(),
        agent: Some(PROGRAM.into()),
        cache: Some(cache.path().join("packages")),
        state: Some(cache.path().join("state")),
        ..Options::default()
    };
    let cache = readable_dir();
    let exchanged = dir.path().join(WHEEL);
    let right = fs::read(&exchanged).unwrap();
    fs::write(&exchanged, "other").unwrap();
    let refused = Executor::open(options(&cache)).await.unwrap_err();
    assert!(matches!(refused, ExecutorError::Wheel(WheelError::Hash { .. })), "{refused}");
    // If a process died while unpacking, the directory that it left behind is replaced.
    fs::write(&exchanged, right).unwrap();
    let unpacked =
        fs::read_dir(cache.path().join("packages")).unwrap().next().unwrap().unwrap().path();
    fs::create_dir_all(unpacked.join(".greeting/half")).unwrap();
    Executor::open(options(&cache)).await.unwrap().close().await;
    assert!(unpacked.join("greeting/greeting/__init__.py").is_file());
    assert!(!unpacked.join("greeting/half").exists());
    // Packages are unpacked once, so the package file is not read again.
    fs::write(&exchanged, "other").unwrap();
    Executor::open(options(&cache)).await.unwrap().close().await;
    // A back end that cannot mount packages is rejected before any model is called.
    let refused = Options { backend: Some("in-process".to_owned()), ..options(&cache) };
    let refused = Executor::open(refused).await.unwrap_err().to_string();
    assert!(refused.contains("in-process cannot mount packages"), "{refused}");
}

#[tokio::test]
async fn unavailable_packages_are_reported_to_the_critic() {
    let code = serde_json::json!({ "code": "import numpy", "dependencies": ["numpy"] });
    let diagnosis = serde_json::json!({ "diagnosis": "no such package", "should_retry": true });
    let problem = "dependency unavailable: numpy; only the standard library is available";
    let llm = Llm::new(Scripted::new("test", move |request: &Request| {
        let prompt = request.prompt();
        if !sessions::wants_program(request) && prompt.contains(problem) {
            Reply::from(diagnosis.clone())
        } else if prompt.contains("attempt 1 of") {
            Reply::from(code.clone())
        } else if prompt.contains("no such package") {
            sessions::program("print('without')")
        } else {
            Reply::from(ErrorKind::BadRequest)
        }
    }));
    let session = session(Job::new("x"), llm).await;
    let outcome = session.outcome.unwrap();
    assert_eq!((outcome.success, outcome.attempts), (true, 2));
    let first = &session.history[0];
    assert_eq!(first.execution.status, Status::DependencyUnavailable);
    assert_eq!(first.failure.as_ref().unwrap().class, Class::Dependency);
    // The program was not run.
    assert_eq!(first.execution.sandbox, "");
}

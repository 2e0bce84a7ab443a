//! Packages: from a folder, by a list, or not at all.

use std::{fs, process::Command};

use reflexion_graph::{
    Job, Limits,
    execution::Status,
    failure::Class,
    wheels::{LIST, WheelError, Wheels},
    workshop::{Options, Workshop, WorkshopError},
};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::{PROGRAM, open_folder, session, sessions, skipped};

const WHEEL: &str = "greeting-1.0-py3-none-any.whl";

/// A folder with a package of one module and a large file of data, beside one that is not on the list.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let make = "import zipfile\nwith zipfile.ZipFile('greeting-1.0-py3-none-any.whl', 'w', zipfile.ZIP_DEFLATED) as file:\n    \
        file.writestr('greeting/__init__.py', 'WORD = \"hello\"\\n')\n    file.writestr('greeting-1.0.dist-info/METADATA', 'Name: greeting\\n')\n    \
        file.writestr('greeting/data', b'x' * (80 << 20))\n    file.writestr('../outside.py', 'x')";
    let made = Command::new("python3").args(["-c", make]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    fs::copy(folder.path().join(WHEEL), folder.path().join("other-1.0-py3-none-any.whl")).unwrap();
    let bytes = fs::read(folder.path().join(WHEEL)).unwrap();
    let hash: String = Sha256::digest(&bytes).iter().map(|it| format!("{it:02x}")).collect();
    let list = format!("[[wheel]]\nname = \"greeting\"\nfile = \"{WHEEL}\"\nsha256 = \"{hash}\"\n");
    fs::write(folder.path().join(LIST), list).unwrap();
    folder
}

#[tokio::test]
async fn a_listed_package_can_be_used_and_not_be_changed() {
    let folder = folder();
    for backend in ["jail", "gvisor"] {
        let wheels = Wheels::open(folder.path()).unwrap();
        let place = open_folder();
        let options = Options {
            backend: Some(backend.to_owned()),
            pool: 1,
            wheels,
            agent: Some(PROGRAM.into()),
            cache: Some(place.path().join("packages")),
            state: Some(place.path().join("state")),
            ..Options::default()
        };
        match Workshop::open(options).await {
            Ok(workshop) => check(&workshop).await,
            Err(problem) if backend == "jail" => panic!("{problem}"),
            Err(problem) => skipped(backend, &problem),
        }
        assert!(!place.path().join("packages/outside.py").exists());
    }
}

async fn check(workshop: &Workshop) {
    let job = Job { limits: Limits { timeout: 20.0, ..Limits::default() }, ..Job::new("greet") };
    // Larger than a sandbox's own disk; it may be read and not be changed, and nothing else is beside it.
    let code = "import greeting, os\nprint(greeting.WORD, os.path.getsize(greeting.__path__[0] + '/data') >> 20)\n\
        print([it for it in os.listdir('/packages') if it[0] != '.'])\n\
        for path in [greeting.__file__, '/packages/new']:\n    \
            try:\n        open(path, 'w')\n        print('changed', path)\n    except OSError as error:\n        print(error.strerror)";
    let asked = ["Greeting>=1.0".to_owned(), "os".to_owned()];
    let execution = workshop.run(code, &asked, &job).await.unwrap();
    let (said, error) = (execution.stdout, execution.stderr);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..2], ["hello 80", "['greeting']"], "{said} {error}");
    assert!(!said.contains("changed") && lines.len() == 4, "{said} {error}");
    // Who does not ask for it does not have it.
    let execution = workshop.run("import greeting", &[], &job).await.unwrap();
    assert!(execution.stderr.contains("ModuleNotFoundError"), "{execution:?}");
    workshop.close().await;
}

#[tokio::test]
async fn a_file_that_is_not_the_listed_one_is_refused_before_anything_runs() {
    let folder = folder();
    let options = |cache: &TempDir| Options {
        pool: 1,
        wheels: Wheels::open(folder.path()).unwrap(),
        agent: Some(PROGRAM.into()),
        cache: Some(cache.path().join("packages")),
        state: Some(cache.path().join("state")),
        ..Options::default()
    };
    let cache = open_folder();
    let exchanged = folder.path().join(WHEEL);
    let right = fs::read(&exchanged).unwrap();
    fs::write(&exchanged, "other").unwrap();
    let refused = Workshop::open(options(&cache)).await.unwrap_err();
    assert!(matches!(refused, WorkshopError::Wheel(WheelError::Hash { .. })), "{refused}");
    // What a process left that died while it unpacked is no package.
    fs::write(&exchanged, right).unwrap();
    let shelf =
        fs::read_dir(cache.path().join("packages")).unwrap().next().unwrap().unwrap().path();
    fs::create_dir_all(shelf.join(".greeting/half")).unwrap();
    Workshop::open(options(&cache)).await.unwrap().close().await;
    assert!(shelf.join("greeting/greeting/__init__.py").is_file());
    assert!(!shelf.join("greeting/half").exists());
    // It is unpacked once: the file is not looked at again.
    fs::write(&exchanged, "other").unwrap();
    Workshop::open(options(&cache)).await.unwrap().close().await;
    // Where guests cannot be shown anything it is said before a model is paid for.
    let refused = Options { backend: Some("in-process".to_owned()), ..options(&cache) };
    let refused = Workshop::open(refused).await.unwrap_err().to_string();
    assert!(refused.contains("in-process cannot be shown packages"), "{refused}");
}

#[tokio::test]
async fn what_is_not_there_is_said_to_the_critic() {
    let code = serde_json::json!({ "code": "import numpy", "dependencies": ["numpy"] });
    let needy = llm::Rule::json(code).when_schema("GeneratedCode").when_prompt("attempt 1 of");
    let diagnosis = serde_json::json!({ "diagnosis": "heard of it", "should_retry": true });
    let critic = llm::Rule::json(diagnosis)
        .when_schema("Critique")
        .when_prompt("dependency unavailable: numpy; only the standard library can be used");
    let told = sessions::program("print('without')").when_prompt("heard of it");
    let session = session(Job::new("x"), sessions::scripted([needy, critic, told])).await;
    let outcome = session.outcome.unwrap();
    assert_eq!((outcome.success, outcome.attempts), (true, 2));
    let first = &session.history[0];
    assert_eq!(first.execution.status, Status::DependencyUnavailable);
    assert_eq!(first.failure.as_ref().unwrap().class, Class::Dependency);
    // It was not run at all.
    assert_eq!(first.execution.sandbox, "");
}

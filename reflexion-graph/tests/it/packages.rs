//! Packages: from a folder, by a list, or not at all.

use std::{fs, process::Command};

use reflexion_graph::{
    Job,
    execution::Status,
    failure::Class,
    wheels::{LIST, WheelError, Wheels},
    workshop::{Options, WorkshopError},
};
use sha2::{Digest, Sha256};

use crate::{session, sessions, workshop};

/// A folder with a package of one module.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let make = "import zipfile\nwith zipfile.ZipFile('greeting-1.0-py3-none-any.whl', 'w') as file:\n    \
        file.writestr('greeting/__init__.py', 'WORD = \"hello\"\\n')\n    file.writestr('greeting-1.0.dist-info/METADATA', 'Name: greeting\\n')";
    let made = Command::new("python3").args(["-c", make]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let bytes = fs::read(folder.path().join("greeting-1.0-py3-none-any.whl")).unwrap();
    let hash: String = Sha256::digest(&bytes).iter().map(|it| format!("{it:02x}")).collect();
    let list = format!(
        "[[wheel]]\nname = \"greeting\"\nfile = \"greeting-1.0-py3-none-any.whl\"\nsha256 = \"{hash}\"\n"
    );
    fs::write(folder.path().join(LIST), list).unwrap();
    folder
}

#[tokio::test]
async fn a_listed_package_can_be_used() {
    let folder = folder();
    let wheels = Wheels::open(folder.path()).unwrap();
    let (workshop, _state) = workshop(Options { pool: 1, wheels, ..Options::default() }).await;
    let code = "import greeting\nprint(greeting.WORD)";
    let job = Job::new("greet");
    let execution = workshop.run(code, &["greeting".to_owned(), "os".to_owned()], &job).await;
    let execution = execution.unwrap();
    assert_eq!((execution.status, &*execution.stdout), (Status::Success, "hello\n"));
    // Who does not ask for it does not have it.
    let execution = workshop.run(code, &[], &job).await.unwrap();
    assert!(execution.stderr.contains("ModuleNotFoundError"), "{execution:?}");
    // A file that was exchanged is nobody's package, and no program's fault.
    fs::write(folder.path().join("greeting-1.0-py3-none-any.whl"), "other").unwrap();
    let refused = workshop.run(code, &["greeting".to_owned()], &job).await;
    assert!(matches!(refused, Err(WorkshopError::Wheel(WheelError::Hash { .. }))));
    workshop.close().await;
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

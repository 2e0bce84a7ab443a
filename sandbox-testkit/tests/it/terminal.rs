//! Tests that guests cannot access the terminal of their host.

use std::{env, fs::File, process::Command};

use sandbox_vm::{Image, Program, Spec, backend::Jail};

use crate::{HOSTILE, sandboxes};

/// Environment variable that is set when the test below reruns itself in a terminal.
const IN_TERMINAL: &str = "SANDBOX_VM_IN_TERMINAL";

#[tokio::test]
async fn guests_cannot_access_the_terminal_of_their_host() {
    if env::var_os(IN_TERMINAL).is_some() {
        return check_in_terminal().await;
    }
    let this = env::current_exe().unwrap();
    let name = "terminal::guests_cannot_access_the_terminal_of_their_host";
    // `script` runs a command in a new terminal, and exits with the command's status.
    let command = format!("'{}' {name} --exact --nocapture", this.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env(IN_TERMINAL, "1");
    match script.output() {
        Err(error) => test_support::report_skipped(&format!("cannot run `script`: {error}")),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
    }
}

async fn check_in_terminal() {
    File::open("/dev/tty").expect("this process has a controlling terminal");
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("terminal").image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let attempt = Program::new(sandbox_testkit::PROGRAM).args(["try", "terminal"]);
    let output = sandbox.exec(attempt).await.unwrap();
    assert!(output.success(), "{output:?}");
}

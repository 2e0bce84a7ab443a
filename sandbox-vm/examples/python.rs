//! Runs an untrusted Python program in a jail and prints its output, status and resource usage.
#![expect(clippy::print_stdout, reason = "examples print their results")]

use std::time::Duration;

use sandbox_vm::{
    ExecLimits, Image, Program, Sandboxes, Spec,
    backend::Jail,
    guest::{self, Agent},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The guest runs this same program. In a process that was started as a guest, this call does not return.
    guest::enter(Agent::new);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let sandboxes = Sandboxes::builder().backend(Jail::this_program()).open().await?;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("python").image(Image::Python)).await?;
    sandbox.fs().write("code.py", "import os\nprint(6 * 7, os.listdir('/'))\n").await?;

    let python = Program::new("/usr/bin/python3").arg("/workspace/code.py");
    let output = sandbox.exec(python).await?;
    println!("{:?} in {:?}", output.status, output.usage.wall);
    print!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );

    let limits = ExecLimits { wall: Duration::from_millis(300), ..ExecLimits::default() };
    let endless = Program::new("/usr/bin/python3").args(["-c", "while True: pass"]).limits(limits);
    println!("{:?}", sandbox.exec(endless).await?.status);
    sandbox.delete().await;
    Ok(())
}

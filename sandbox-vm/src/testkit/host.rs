//! A host with live sandboxes that waits to be killed: the tests look at what it leaves behind.

use std::{
    io::{self, Write},
    path::Path,
};

use crate::{
    GraphRun, Image, Isolation, Opening, Program, Sandbox, Sandboxes, Spec,
    backend::{Gvisor, InProcess, Jail, MicroVm},
};

/// Is a host with so many live sandboxes, says `ready`, and never ends.
pub(super) fn run(backend: &str, count: usize, state: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let opening = open(backend, Sandboxes::new().state_folder(state));
        let sandboxes = opening.open().await.map_err(io::Error::other)?;
        // A VM without a kernel has no other.
        let image = if backend == "kvm-process" { Image::Base } else { Image::Python };
        for number in 0..count {
            let spec = Spec::new(format!("live-{number}")).image(image.clone());
            let sandbox = sandboxes.create_if_not_exists(spec).await.map_err(io::Error::other)?;
            // Some of them are in the middle of something, and some will never look up from it: neither a VM without a
            // kernel, which runs no programs, nor this process itself, which would not go on either.
            match (number % 3, backend) {
                (0, it) if it != "kvm-process" => run_program(sandbox),
                (1, it) if it != "in-process" => run_graph(&sandbox).await?,
                _ => {}
            }
        }
        let mut out = io::stdout();
        writeln!(out, "ready")?;
        out.flush()?;
        std::future::pending().await
    })
}

fn open(backend: &str, opening: Opening) -> Opening {
    match backend {
        "gvisor" => opening.backend(Gvisor::this_program()),
        "microvm" => opening.backend(MicroVm::this_program()),
        #[cfg(target_arch = "x86_64")]
        "kvm-process" => opening.backend(crate::backend::KvmProcess::this_program()),
        "in-process" => opening.backend(InProcess::new(super::agent)).isolation(Isolation::Off),
        _ => opening.backend(Jail::this_program()),
    }
}

/// Runs a program that has started another.
fn run_program(sandbox: Sandbox) {
    let program = Program::new("/bin/sh").args(["-c", "sleep 1000 & wait"]);
    tokio::spawn(async move { sandbox.exec(program).await });
}

async fn run_graph(sandbox: &Sandbox) -> io::Result<()> {
    let run = GraphRun::new("hang").input(serde_json::Map::new());
    let running = sandbox.run_graph(run).await.map_err(io::Error::other)?;
    tokio::spawn(running.finish());
    Ok(())
}

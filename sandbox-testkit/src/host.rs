//! A host process that has live sandboxes and waits to be killed. Tests then check what the process leaves behind.

use std::{
    io::{self, Write},
    path::Path,
};

use sandbox_vm::{
    GraphRun, Image, Isolation, Program, Sandbox, Sandboxes, SandboxesBuilder, Spec,
    backend::{Gvisor, InProcess, Jail, MicroVm},
};

use crate::{
    check::{START_TIMEOUT, long_exec_limits},
    graphs::agent,
};

/// Environment variable with the path of the program that containers run as their agent. If it is not set, containers
/// run this program.
#[cfg(feature = "docker")]
const AGENT_VARIABLE: &str = "SANDBOX_VM_AGENT";

/// Starts `count` sandboxes, prints `ready`, and never returns.
pub(crate) fn run(backend: &str, count: usize, state: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let builder = Sandboxes::builder().state_dir(state).start_timeout(START_TIMEOUT);
        let builder = add_backend(backend, builder);
        let sandboxes = builder.open().await.map_err(io::Error::other)?;
        // The `kvm-process` back end cannot run programs, and the image used with `docker` contains only the agent.
        let has_programs = !matches!(backend, "kvm-process" | "docker");
        let image = if has_programs { Image::Python } else { Image::Base };
        for number in 0..count {
            let spec = Spec::new(format!("live-{number}")).image(image.clone());
            let sandbox = sandboxes.create_if_not_exists(spec).await.map_err(io::Error::other)?;
            // Some sandboxes run a program, some run a graph that never yields, and the others are idle. The
            // `in-process` back end does not run the graph, because the graph would block this process too.
            match number % 3 {
                0 if has_programs => run_program(sandbox),
                1 if backend != "in-process" => run_graph(&sandbox).await?,
                _ => {}
            }
        }
        let mut out = io::stdout();
        writeln!(out, "ready")?;
        out.flush()?;
        std::future::pending().await
    })
}

fn add_backend(backend: &str, builder: SandboxesBuilder) -> SandboxesBuilder {
    match backend {
        "gvisor" => builder.backend(Gvisor::this_program()),
        "microvm" => builder.backend(MicroVm::this_program()),
        #[cfg(target_arch = "x86_64")]
        "kvm-process" => builder.backend(sandbox_vm::backend::KvmProcess::this_program()),
        #[cfg(feature = "docker")]
        "docker" => {
            let agent = std::env::var_os(AGENT_VARIABLE).unwrap_or_else(|| "/proc/self/exe".into());
            builder.backend(sandbox_vm::backend::Docker::agent(agent))
        }
        "in-process" => builder.backend(InProcess::new(agent)).isolation(Isolation::Off),
        _ => builder.backend(Jail::this_program()),
    }
}

/// Runs a program that starts another process and waits for it.
fn run_program(sandbox: Sandbox) {
    let program = Program::new("/bin/sh").args(["-c", "sleep 1000 & wait"]);
    let program = program.limits(long_exec_limits());
    tokio::spawn(async move { sandbox.exec(program).await });
}

async fn run_graph(sandbox: &Sandbox) -> io::Result<()> {
    let run = GraphRun::new("hang").input(serde_json::Map::new());
    let running = sandbox.run_graph(run).await.map_err(io::Error::other)?;
    tokio::spawn(running.finish());
    Ok(())
}

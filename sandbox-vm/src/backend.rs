//! Back ends. Each one is a way to start a guest, for example in a VM or in a jail.
//!
//! A back end is small. It starts a guest with an agent in it and returns a byte stream to that agent and a [`Handle`]
//! to the guest as a whole. Programs, files and graphs are handled by the agent, in the same way for all back ends.

mod confine;
pub(crate) mod container;
mod diagnostics;
#[cfg(feature = "docker")]
pub(crate) mod docker;
mod fd_passing;
pub(crate) mod gvisor;
mod host;
mod in_process;
pub(crate) mod interface;
pub(crate) mod jail;
#[cfg(target_arch = "x86_64")]
pub(crate) mod kvm_process;
mod loaded_files;
pub(crate) mod microvm;
mod names;
pub(crate) mod plan;
mod probe;
mod seccomp;
pub(crate) mod stage_error;

use std::{path::PathBuf, sync::Arc};

#[cfg(feature = "docker")]
pub use docker::Docker;
pub use gvisor::Gvisor;
pub use in_process::InProcess;
pub use interface::{Backend, Channel, Guest, Handle, Snapshot};
pub use jail::Jail;
#[cfg(target_arch = "x86_64")]
pub use kvm_process::KvmProcess;
pub use microvm::MicroVm;
pub(crate) use probe::reject;

/// Kind of work that guests have to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Programs and graphs.
    Programs,
    /// Only graphs.
    Graphs,
}

/// Returns all isolating back ends, strongest first, for guests that run `program`. The program has to be readable by
/// every user and call [`guest::enter`](crate::guest::enter) before anything else. Micro VMs and containers also need
/// it to be statically linked.
///
/// ```no_run
/// use sandbox_vm::{Sandboxes, backend::Workload};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Uses the strongest back end that works on this machine.
/// let sandboxes = Sandboxes::builder()
///     .isolating_backends("/usr/local/bin/guest", Workload::Programs)
///     .open()
///     .await?;
/// println!("guests run in {}", sandboxes.backend());
/// for report in sandboxes.reports() {
///     println!("{}: {}", report.backend, report.problem.as_deref().unwrap_or("available"));
/// }
/// # Ok(()) }
/// ```
pub fn isolating_backends(
    program: impl Into<PathBuf>,
    workload: Workload,
) -> Vec<Arc<dyn Backend>> {
    let program: PathBuf = program.into();
    let mut backends: Vec<Arc<dyn Backend>> = vec![Arc::new(MicroVm::agent(&program))];
    #[cfg(target_arch = "x86_64")]
    if workload == Workload::Graphs {
        backends.push(Arc::new(KvmProcess::agent(&program)));
    }
    backends.push(Arc::new(Gvisor::program(&program)));
    backends.push(Arc::new(Jail::program(&program)));
    #[cfg(feature = "docker")]
    backends.push(Arc::new(Docker::agent(&program)));
    backends
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Jail, Workload, isolating_backends, probe::start_and_stop};
    use crate::script_file::write_script;

    #[test]
    fn strongest_back_end_is_first() {
        let names = |workload| {
            isolating_backends("/agent", workload).iter().map(|it| it.name()).collect::<Vec<_>>()
        };
        let programs = names(Workload::Programs);
        assert_eq!(programs[..3], ["microvm", "gvisor", "jail"]);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(names(Workload::Graphs)[..4], ["microvm", "kvm-process", "gvisor", "jail"]);
        assert_eq!(programs.contains(&"docker"), cfg!(feature = "docker"));
        assert!(!programs.contains(&"in-process"), "it isolates nothing");
    }

    /// The reason is reported even if the guest writes it only after its channel has closed. Killing the guest as soon
    /// as the channel closes would lose the reason.
    #[tokio::test]
    async fn reason_of_an_early_end_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        // The host sends its first message after it has opened the process that the script reports as the guest.
        let script = "sleep 1000 </dev/null >/dev/null 2>&1 & echo guest $!\nhead -c 1 >/dev/null\nexec 0</dev/null\n\
                      sleep 0.3\necho no such luck >&2";
        write_script(&program, script);
        let result =
            start_and_stop(&Jail::program(program), "probe-test", Duration::from_secs(120)).await;
        let message = result.unwrap_err().to_string();
        assert!(message.ends_with("it ended before the handshake; no such luck"), "{message}");
    }
}

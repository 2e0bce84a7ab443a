//! Creates the sandbox of a debate, with another back end if necessary.

use std::future::Future;

use sandbox_vm::{Error, Isolation, Sandboxes, Spec};

use super::{backends::BACKENDS, degradation::downgrade_event};
use crate::{event::PipelineEvent, moves::MoveId};

/// Creates the sandbox of the debate about a move. Tries the first back end twice, because a guest may die at its start
/// for a transient reason, then the other back ends that provide the required isolation, and finally `fallback`, which
/// does not isolate. At this point no debate runs yet, so no guest can influence how its debate is isolated.
///
/// `open` opens the back end with a name in [`BACKENDS`], if it provides the given isolation.
///
/// Returns the back end and, if it isolates guests less than the first one or not at all, an event that states why it
/// is used and how to get a virtual machine.
pub(super) async fn create_sandbox<F: Future<Output = Result<Sandboxes, Error>>>(
    move_id: MoveId,
    spec: &Spec,
    first: &Sandboxes,
    isolation: Isolation,
    open: impl Fn(Isolation, &'static str) -> F,
    fallback: Option<&Sandboxes>,
) -> (Sandboxes, Result<Option<PipelineEvent>, Error>) {
    let create = async |it: &Sandboxes| it.create_if_not_exists(spec.clone()).await;
    if create(first).await.is_ok() {
        return (first.clone(), Ok(None));
    }
    let Err(error) = create(first).await else { return (first.clone(), Ok(None)) };
    if first.isolated() {
        let required = match isolation {
            Isolation::Preferred => Isolation::Process,
            required => required,
        };
        for name in BACKENDS.into_iter().filter(|it| *it != first.backend()) {
            if let Ok(sandboxes) = open(required, name).await
                && create(&sandboxes).await.is_ok()
            {
                let is_weaker = sandboxes.level() < first.level();
                let event = is_weaker.then(|| downgrade_event(move_id, first, &sandboxes, &error));
                return (sandboxes, Ok(event));
            }
        }
    }
    let Some(fallback) = fallback else { return (first.clone(), Err(error)) };
    let event = downgrade_event(move_id, first, fallback, &error);
    (fallback.clone(), create(fallback).await.map(|_| Some(event)))
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use async_trait::async_trait;
    use sandbox_vm::{
        Error, Isolation, Sandboxes, Spec,
        backend::{Backend, Guest, InProcess},
        report::{Guarantee, IsolationLevel, Report},
        sandbox_dir::SandboxDir,
    };

    use super::{BACKENDS, create_sandbox};
    use crate::{debate, event::PipelineEvent, moves::MoveId};

    /// A back end that claims to isolate its guests at level `process`, or at level `vm` if it is called `vm`. The
    /// first guests die as soon as they have started.
    #[derive(Debug)]
    struct Claiming {
        name: &'static str,
        dying: usize,
        started: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Backend for Claiming {
        fn name(&self) -> &'static str {
            self.name
        }

        async fn probe(&self) -> Report {
            let isolated = [Guarantee::NoNetwork, Guarantee::NoHostFiles, Guarantee::OwnProcesses];
            let vm = (self.name == "vm").then_some(Guarantee::VirtualMachine);
            Report::available(self.name, isolated.into_iter().chain(vm))
        }

        async fn start(&self, spec: &Spec, dir: &SandboxDir) -> Result<Guest, Error> {
            let guest = InProcess::new(debate::agent).start(spec, dir).await?;
            if self.started.fetch_add(1, Ordering::Relaxed) < self.dying {
                guest.handle.kill().await;
            }
            Ok(guest)
        }
    }

    async fn open_claiming(
        dir: &Path,
        name: &'static str,
        dying: usize,
    ) -> (Sandboxes, Arc<AtomicUsize>) {
        let started = Arc::new(AtomicUsize::new(0));
        let backend = Claiming { name, dying, started: started.clone() };
        let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Process);
        (builder.state_dir(dir.join(name)).open().await.unwrap(), started)
    }

    async fn in_process(dir: &Path) -> Sandboxes {
        let builder = Sandboxes::builder().backend(InProcess::new(debate::agent));
        builder.isolation(Isolation::Off).state_dir(dir.join("off")).open().await.unwrap()
    }

    /// Returns the back end, the isolation and the reason of the event.
    fn degradation(
        result: Result<Option<PipelineEvent>, Error>,
    ) -> (String, IsolationLevel, String) {
        match result.unwrap() {
            Some(PipelineEvent::SandboxDegraded { move_id, backend, isolation, reason }) => {
                assert_eq!(move_id.as_deref(), Some("m3"));
                (backend, isolation, reason)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Creates a sandbox. The first `dying` guests of the back end `first` die at their start. Of the other back ends,
    /// only `available` can be opened. Returns the name of the back end that created the sandbox, the number of guests
    /// that `first` started, the requested back ends, and the event.
    async fn check(
        first: &'static str,
        dying: usize,
        isolation: Isolation,
        available: Option<&'static str>,
        has_fallback: bool,
    ) -> (&'static str, usize, Vec<(Isolation, &'static str)>, Result<Option<PipelineEvent>, Error>)
    {
        let dir = tempfile::tempdir().unwrap();
        let (first, started) = open_claiming(dir.path(), first, dying).await;
        let fallback = in_process(dir.path()).await;
        let requested = Mutex::new(Vec::new());
        let open = |isolation, name: &'static str| {
            requested.lock().unwrap().push((isolation, name));
            let dir = dir.path();
            async move {
                match available == Some(name) {
                    true => Ok(open_claiming(dir, name, 0).await.0),
                    false => Err(Error::Start { backend: "none", problem: "missing".to_owned() }),
                }
            }
        };
        let spec = Spec::new("debate");
        let fallback = has_fallback.then_some(&fallback);
        let (used, result) =
            create_sandbox(MoveId(3), &spec, &first, isolation, open, fallback).await;
        let requested = requested.lock().unwrap().clone();
        (used.backend(), started.load(Ordering::Relaxed), requested, result)
    }

    #[tokio::test]
    async fn a_guest_that_dies_at_its_start_is_retried_in_the_same_back_end() {
        let (backend, started, requested, result) =
            check("first", 1, Isolation::Preferred, None, true).await;
        assert_eq!((backend, started, requested), ("first", 2, Vec::new()));
        assert_eq!(result.unwrap(), None);
    }

    #[tokio::test]
    async fn isolating_back_ends_are_tried_before_the_in_process_one() {
        let available = Some(BACKENDS[1]);
        let (backend, started, requested, result) =
            check("first", usize::MAX, Isolation::Preferred, available, true).await;
        assert_eq!((backend, started), (BACKENDS[1], 2));
        assert_eq!(requested, [0, 1].map(|idx| (Isolation::Process, BACKENDS[idx])));
        assert_eq!(result.unwrap(), None);
    }

    #[tokio::test]
    async fn a_weaker_back_end_is_reported_with_a_command_for_vms() {
        let (backend, _, _, result) =
            check("vm", usize::MAX, Isolation::Preferred, Some("jail"), true).await;
        assert_eq!(backend, "jail");
        let (backend, isolation, reason) = degradation(result);
        assert_eq!((backend.as_str(), isolation), ("jail", IsolationLevel::Process));
        assert!(reason.contains("; memory is NOT BOUNDED by a kernel"), "{reason}");
        assert!(reason.ends_with("; for VMs, run `consulting doctor` and follow its advice"));
        assert_eq!(reason.lines().count(), 1, "{reason}");
    }

    #[tokio::test]
    async fn the_in_process_back_end_is_used_only_if_isolation_is_not_required() {
        let (backend, _, requested, result) =
            check("first", usize::MAX, Isolation::Preferred, None, true).await;
        assert_eq!((backend, requested.len()), ("in-process", BACKENDS.len()));
        let (backend, isolation, reason) = degradation(result);
        assert_eq!((backend.as_str(), isolation), ("in-process", IsolationLevel::Off));
        assert!(reason.ends_with("; for VMs, omit --sandbox"), "{reason}");
        let (backend, started, requested, result) =
            check("first", usize::MAX, Isolation::Kernel, None, false).await;
        assert_eq!((backend, started), ("first", 2));
        assert!(requested.iter().all(|it| it.0 == Isolation::Kernel), "{requested:?}");
        assert!(result.is_err());
    }
}

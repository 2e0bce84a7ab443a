//! Tests that a graph in a VM produces the same trace as on the host, even if the VM is killed during the run.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use graph_core::{Checkpointer, MemorySaver, RunOutcome};
use graph_trace::TraceBuilder;
use rustix::process::{Signal, kill_process};
use sandbox_testkit::graphs;
use sandbox_vm::{CallPolicy, Error, GraphRun, Sandboxes, Spec, backend::Backend};
use serde_json::{Value, json};

use crate::{
    microvm::{dynamically_linked_micro_vm, machines, micro_vm},
    sandboxes, traces,
};

#[tokio::test]
async fn vm_graph_trace_matches_in_process_trace() {
    let Some(vm) = micro_vm() else { return };
    traces::check(vm, true).await;
}

/// The guest runs the suite's program as Cargo builds it by default, with its libraries.
#[tokio::test]
async fn dynamically_linked_graph_trace_matches_in_process_trace() {
    if micro_vm().is_some() {
        traces::check(dynamically_linked_micro_vm(), true).await;
    }
}

#[tokio::test]
async fn killed_vm_is_replaced_with_identical_trace() {
    let Some(vm) = micro_vm() else { return };
    check_killed(vm).await;
}

/// Checks that killed VMs are replaced, and that this changes neither the trace nor the calls that are made.
pub(crate) async fn check_killed(backend: impl Backend + 'static) {
    let (sandboxes, dir) = sandboxes(backend).await;
    let state = dir.path().join("state");

    let expected = traces::reference_trace().await;
    let (run, calls) = killing_run(&state);
    let mut builder = TraceBuilder::new();
    builder.begin_run(expected.header.input.clone());
    let (exit, guests) = run_to_completion(&sandboxes, run, &mut builder).await;
    assert_eq!(guests, 3, "two VMs were killed");
    calls.assert_each_once();
    traces::assert_same(builder, &expected);
    // The last VM wrote the last log, which contains the turns from all three VMs.
    let sandbox = sandboxes.get("graph").unwrap();
    let log: Value = sandbox.fs().read_json("logs/round-3.json").await.unwrap();
    assert_eq!(log, exit.state()["turns"]);
    sandbox.delete().await;

    // `Sandboxes::run_graph` has the same result.
    let (run, calls) = killing_run(&state);
    let replaced = sandboxes.run_graph(Spec::new("graph"), run, 3, drop).await.unwrap();
    calls.assert_each_once();
    assert_eq!(replaced.state(), exit.state());
    sandboxes.delete_all().await;
}

/// Runs a graph to completion, in as many VMs as needed. Returns the result and the number of VMs.
async fn run_to_completion(
    sandboxes: &Sandboxes,
    mut run: GraphRun,
    builder: &mut TraceBuilder,
) -> (RunOutcome<Value>, usize) {
    for guest in 1.. {
        let sandbox = sandboxes.create_if_not_exists(Spec::new("graph")).await.unwrap();
        let mut running = sandbox.run_graph(run.clone()).await.unwrap();
        while let Some(event) = running.next().await {
            builder.add_event(&event);
        }
        match running.finish().await {
            Ok(exit) => return (exit, guest),
            Err(Error::Terminated { .. }) => run = run.proceed(),
            Err(error) => panic!("{error}"),
        }
        builder.begin_run(Value::Null);
    }
    unreachable!("the VM is killed only twice")
}

/// Returns a debate whose third and fifth calls kill the VM and are still answered.
fn killing_run(state: &Path) -> (GraphRun, Calls) {
    let calls = Calls::default();
    let (count, state) = (calls.clone(), state.to_owned());
    let policy = CallPolicy::new(move |_: String, request: Value| {
        let prompt = request["prompt"].as_str().unwrap().to_owned();
        if [3, 5].contains(&count.count(&prompt)) {
            kill_machine(&state);
        }
        async move { Ok(json!(graphs::answer(&prompt))) }
    });
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    (traces::debate().thread("t", saver).call_policy(policy.allow("llm.chat")), calls)
}

/// Number of calls for each prompt, counted outside the guest.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, usize>>>);

impl Calls {
    /// Counts a call with this prompt, and returns the total number of calls with any prompt.
    fn count(&self, prompt: &str) -> usize {
        let mut calls = self.0.lock().unwrap();
        *calls.entry(prompt.to_owned()).or_default() += 1;
        calls.values().sum()
    }

    #[track_caller]
    fn assert_each_once(&self) {
        let calls = self.0.lock().unwrap();
        assert!(calls.len() == 6 && calls.values().all(|it| *it == 1), "{calls:?}");
    }
}

/// Kills the VM's process directly, without going through the sandbox.
fn kill_machine(state: &Path) {
    let machines = machines(state);
    assert_eq!(machines.len(), 1, "{machines:?}");
    kill_process(machines[0], Signal::KILL).unwrap();
}

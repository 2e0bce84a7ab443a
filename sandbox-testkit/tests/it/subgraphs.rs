//! Tests that a subgraph in a sandbox behaves like the same subgraph in the host's process, on every back end that this
//! machine supports. Only nightly runs test all of it in micro VMs, because an emulated VM takes seconds to start.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use graph_core::{
    Durability, Event, EventKind, Goto, HistoryFilter, Input, MemorySaver, NodeTimeoutError,
    Persistence, RunControl, RunError, RunOptions, RunOutcome, START, StateGraph, StopReason,
    StreamMode, SubgraphNode, Thread, subgraph_on_payload,
};
use graph_trace::{Detail, RecordedRun, Recorder, TextOptions, record_thread};
use sandbox_testkit::inquiry::{
    ASK, Inquiry, PULSE, Report, ReportOptions, answer, inquiry, report,
};
use sandbox_vm::{
    CallError, CallPolicy, HostFunctions, SandboxOptions, Sandboxes, Spec,
    backend::{InProcess, Jail},
    guest::Host,
    sandboxed,
};
use serde_json::json;
use tempfile::TempDir;
use test_support::{is_nightly, report_nightly_only};

use crate::{HOSTILE, microvm::micro_vm, sandboxes, suite::gvisor};

type Deps = Option<Host>;

/// Opens sandboxes on every back end that this machine supports, on micro VMs only in nightly runs.
async fn backends() -> Vec<(Sandboxes, TempDir)> {
    let mut all = vec![
        sandboxes(InProcess::new(sandbox_testkit::agent)).await,
        sandboxes(Jail::program(HOSTILE)).await,
    ];
    #[cfg(target_arch = "x86_64")]
    if let Some(backend) = crate::kvm_process::backends().await.into_iter().next() {
        all.push(sandboxes(backend).await);
    }
    if let Some(backend) = gvisor().await {
        all.push(sandboxes(backend).await);
    }
    #[cfg(feature = "docker")]
    if let Some((_, backend)) = crate::docker::real_engine().await {
        all.push(sandboxes(backend).await);
    }
    if is_nightly()
        && let Some(backend) = micro_vm()
    {
        all.push(sandboxes(backend).await);
    }
    all
}

/// Runs a check on each of [`backends`].
async fn on_each_backend<F: Future<Output = ()>>(check: impl Fn(Sandboxes) -> F) {
    for (sandboxes, _dir) in backends().await {
        check(sandboxes.clone()).await;
        assert_eq!(sandboxes.list().len(), 0, "{}: a sandbox is left", sandboxes.backend());
    }
}

fn graph() -> graph_core::CompiledGraph<Inquiry, Deps> {
    inquiry(Arc::new(MemorySaver::new())).unwrap()
}

/// Returns a thread of a report whose inquiries run in this process, without a sandbox.
fn reference(options: ReportOptions) -> Thread<Report, Deps> {
    report(&graph(), options).unwrap().thread("t", None)
}

/// Returns a thread of a report whose inquiries run in sandboxes.
fn in_sandboxes(
    sandboxes: &Sandboxes,
    policy: CallPolicy,
    options: ReportOptions,
) -> Thread<Report, Deps> {
    let options_of_sandbox = SandboxOptions::new(Spec::new("inquiry")).call_policy(policy);
    let inquiry = sandboxed(&graph(), sandboxes, options_of_sandbox.allow_parent_commands());
    report(&inquiry, options).unwrap().thread("t", None)
}

/// Returns a thread of a report with default options whose inquiries run in sandboxes with the given options.
fn sandboxed_thread(sandboxes: &Sandboxes, options: SandboxOptions) -> Thread<Report, Deps> {
    let inquiry = sandboxed(&graph(), sandboxes, options);
    report(&inquiry, ReportOptions::default()).unwrap().thread("t", None)
}

fn plain_options() -> SandboxOptions {
    SandboxOptions::new(Spec::new("inquiry")).call_policy(plain_policy())
}

/// Number of calls with each prompt.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, u32>>>);

impl Calls {
    /// Returns a policy that counts its calls, and calls `before` with the number of calls so far.
    fn policy<F: Future<Output = ()> + Send + 'static>(
        &self,
        before: impl Fn(u32) -> F + Send + Sync + 'static,
    ) -> CallPolicy {
        let calls = self.clone();
        let body = move |prompt: String| {
            let mut all = calls.0.lock().unwrap();
            *all.entry(prompt.clone()).or_default() += 1;
            let before = before(all.values().sum());
            async move {
                before.await;
                Ok::<_, CallError>(answer(&prompt))
            }
        };
        HostFunctions::new().add(ASK, body).into()
    }

    /// Returns a policy that counts its calls, and deletes all sandboxes during the calls with the given numbers.
    fn killing_policy(&self, sandboxes: &Sandboxes, during: &'static [u32]) -> CallPolicy {
        let sandboxes = sandboxes.clone();
        self.policy(move |nth| {
            let victims = if during.contains(&nth) { sandboxes.list() } else { Vec::new() };
            async move {
                for sandbox in victims {
                    sandbox.delete().await;
                }
            }
        })
    }

    fn made(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }
}

fn plain_policy() -> CallPolicy {
    Calls::default().policy(|_| async {})
}

fn start(mode: &str) -> Report {
    Report { topic: "tea".into(), mode: mode.into(), ..Default::default() }
}

fn text(recorded: &RecordedRun<Report>) -> String {
    recorded.trace.text(TextOptions::new(Detail::Full))
}

/// Runs a report and answers its interrupt, if it raises one.
async fn run(thread: &Thread<Report, Deps>, mode: &str) -> RecordedRun<Report> {
    let recorded = record_thread(thread, start(mode)).await;
    match &recorded.outcome {
        Ok(outcome) if !outcome.interrupts().is_empty() => {
            assert_eq!(
                outcome.interrupts()[0].value,
                "any remark on what is tea: yes, is tea real: yes?"
            );
            recorded.then(thread, Input::resume("no").unwrap()).await
        }
        _ => recorded,
    }
}

#[tokio::test]
async fn traces_match_those_of_ordinary_subgraphs() {
    on_each_backend(async |sandboxes| {
        for persistence in [Persistence::Invocation, Persistence::Thread, Persistence::None] {
            for mode in ["", "interrupt", "fail", "escape"] {
                let options = ReportOptions { persistence, ..Default::default() };
                let expected = run(&reference(options), mode).await;
                let thread = in_sandboxes(&sandboxes, plain_policy(), options);
                let actual = run(&thread, mode).await;
                let case = format!("{}, {persistence:?}, mode `{mode}`", sandboxes.backend());
                assert_eq!(text(&actual), text(&expected), "{case}");
                assert!(text(&actual).contains("polish 2") || mode == "interrupt", "{case}");
                match (&expected.outcome, &actual.outcome) {
                    (Ok(expected), Ok(actual)) => {
                        assert_eq!(actual.state(), expected.state(), "{case}")
                    }
                    (Err(expected), Err(actual)) => {
                        assert_eq!(actual.to_string(), expected.to_string(), "{case}");
                    }
                    other => panic!("{case}: {other:?}"),
                }
            }
        }
    })
    .await;
}

/// The only test of this file that runs in micro VMs in every test run.
#[tokio::test]
async fn interrupted_run_in_micro_vms_has_the_same_trace() {
    if !is_nightly() {
        report_nightly_only("the rest of the tests of subgraphs in micro VMs");
    }
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, _dir) = sandboxes(vm).await;
    let options = ReportOptions::default();
    let expected = run(&reference(options), "interrupt").await;
    let actual = run(&in_sandboxes(&sandboxes, plain_policy(), options), "interrupt").await;
    assert_eq!(text(&actual), text(&expected));
    assert_eq!(actual.outcome.unwrap().state(), expected.outcome.unwrap().state());
    assert_eq!(sandboxes.list().len(), 0, "a sandbox is left");
}

#[tokio::test]
async fn every_durability_stores_the_same_history() {
    on_each_backend(async |sandboxes| {
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            let run_options = RunOptions::new().durability(durability);
            let reference = reference(ReportOptions::default()).with_options(run_options.clone());
            let thread = in_sandboxes(&sandboxes, plain_policy(), ReportOptions::default());
            let thread = thread.with_options(run_options);
            let expected = run(&reference, "interrupt").await;
            let actual = run(&thread, "interrupt").await;
            assert_eq!(text(&actual), text(&expected), "{durability:?}");
            assert_eq!(history(&thread).await, history(&reference).await, "{durability:?}");
        }
    })
    .await;
}

/// Returns the nodes that follow each checkpoint, with the state of the subgraphs, newest checkpoint first.
async fn history(thread: &Thread<Report, Deps>) -> Vec<String> {
    let mut all = Vec::new();
    for checkpoint in thread.history(HistoryFilter::default()).await.unwrap() {
        let at = thread.at(checkpoint.id).state_with_subgraphs().await.unwrap().unwrap();
        let subgraphs = at.tasks.iter().map(|it| it.subgraph.as_ref().map(|it| it.values.clone()));
        all.push(format!("{:?} {:?}", at.next, subgraphs.collect::<Vec<_>>()));
    }
    all
}

#[tokio::test]
async fn forks_and_time_travel_enter_the_subgraph() {
    on_each_backend(async |sandboxes| {
        let threads = [
            reference(ReportOptions::default()),
            in_sandboxes(&sandboxes, plain_policy(), ReportOptions::default()),
        ];
        let mut traces = Vec::new();
        for thread in &threads {
            let first = run(thread, "interrupt").await;
            assert!(first.outcome.as_ref().unwrap().is_done());
            // The checkpoint before the inquiry, whose task was interrupted in the middle.
            let history = thread.history(HistoryFilter::default()).await.unwrap();
            let before = history.iter().find(|it| it.next == ["inquire"]).unwrap().id;
            let replayed = record_thread(&thread.at(before), Input::proceed()).await;
            let replayed = replayed.then(thread, Input::resume("another remark").unwrap()).await;
            let state = replayed.outcome.as_ref().unwrap().state();
            assert!(state.findings[0].contains("another remark"), "{state:?}");
            // Here, the run from the checkpoint gets the resume value directly as its input.
            let forked = record_thread(&thread.at(before), Input::resume("a fork").unwrap()).await;
            let state = forked.outcome.as_ref().unwrap().state();
            assert!(state.findings[0].contains("a fork"), "{state:?}");
            traces.push([text(&first), text(&replayed), text(&forked)]);
        }
        assert_eq!(traces[1], traces[0], "{}", sandboxes.backend());
    })
    .await;
}

#[tokio::test]
async fn runs_start_from_checkpoints_inside_the_subgraph() {
    on_each_backend(async |sandboxes| {
        let calls = Calls::default();
        let policy = calls.policy(|_| async {});
        let thread = in_sandboxes(&sandboxes, policy, ReportOptions::default());
        let expected = run_from_inside(&reference(ReportOptions::default())).await;
        assert_eq!(run_from_inside(&thread).await, expected, "{}", sandboxes.backend());
        // The first inquiry makes the call once, and the second inquiry makes it in each of the four runs.
        assert_eq!(calls.made()["what is tea"], 1 + 4, "{:?}", calls.made());
    })
    .await;
}

/// Runs a report, and then again from checkpoints of its inquiry and of the graph inside the inquiry. Returns the
/// findings of each run.
async fn run_from_inside(thread: &Thread<Report, Deps>) -> Vec<Vec<String>> {
    let mut findings = Vec::new();
    let mut add = |outcome: RunOutcome<Report>| findings.push(outcome.state().findings.clone());
    assert!(!thread.run(start("interrupt")).await.unwrap().interrupts().is_empty());
    let state = thread.state().await.unwrap().unwrap();
    let inquiry = thread.subgraph(state.tasks[0].subgraph_namespace.as_deref().unwrap()).unwrap();
    let question = inquiry.at(inquiry.state().await.unwrap().unwrap().id);
    add(thread.resume("no").await.unwrap());
    let before = inquiry.history(HistoryFilter::new().next("polishing")).await.unwrap();
    let polishing = before[0].tasks[0].subgraph_namespace.as_deref().unwrap();
    let polishing = thread.subgraph(polishing).unwrap();
    let polish = polishing.history(HistoryFilter::new().next("polish")).await.unwrap()[0].id;

    add(question.run(Input::resume("another remark").unwrap()).await.unwrap());
    assert!(!question.run(Input::proceed()).await.unwrap().interrupts().is_empty());
    add(thread.resume("a third remark").await.unwrap());
    add(polishing.at(polish).run(Input::proceed()).await.unwrap());
    findings
}

#[tokio::test]
async fn killed_guest_is_replaced_with_identical_trace_and_without_repeating_calls() {
    on_each_backend(async |sandboxes| {
        let expected = run(&reference(ReportOptions::default()), "").await;
        let calls = Calls::default();
        // Kills the guest during its second and third call, and still answers the calls.
        let policy = calls.killing_policy(&sandboxes, &[2, 3]);
        let actual = run(&in_sandboxes(&sandboxes, policy, ReportOptions::default()), "").await;
        assert_eq!(text(&actual), text(&expected), "{}", sandboxes.backend());
        assert_eq!(actual.outcome.unwrap().state(), expected.outcome.unwrap().state());
        // Both inquiries make the same three calls.
        let made = calls.made();
        assert!(made.len() == 3 && made.values().all(|it| *it == 2), "{made:?}");
    })
    .await;
}

#[tokio::test]
async fn failed_run_resumes_from_the_last_checkpoint_of_the_guest() {
    on_each_backend(async |sandboxes| {
        let calls = Calls::default();
        let policy = calls.killing_policy(&sandboxes, &[3]);
        let options = SandboxOptions::new(Spec::new("inquiry")).call_policy(policy).max_guests(1);
        let thread = sandboxed_thread(&sandboxes, options);
        let failed = record_thread(&thread, start("")).await;
        let error = failed.outcome.as_ref().unwrap_err();
        assert!(error.to_string().contains("it was deleted"), "{error}");
        let actual = failed.then(&thread, Input::proceed()).await;
        let expected = run(&reference(ReportOptions::default()), "").await;
        assert_eq!(text(&actual), text(&expected), "{}", sandboxes.backend());
        assert_eq!(actual.outcome.unwrap().state(), expected.outcome.unwrap().state());
        let made = calls.made();
        assert!(made.len() == 3 && made.values().all(|it| *it == 2), "{made:?}");
    })
    .await;
}

#[tokio::test]
async fn cancelled_and_timed_out_nodes_delete_their_sandbox() {
    for (sandboxes, _dir) in backends().await {
        let options =
            ReportOptions { timeout: Some(Duration::from_millis(300)), ..Default::default() };
        let thread = in_sandboxes(&sandboxes, plain_policy(), options);
        let error = thread.run(start("hang")).await.unwrap_err();
        assert!(error.node_error::<NodeTimeoutError>().is_some(), "{error}");
        until_deleted(&sandboxes).await;

        let control = RunControl::new();
        let cancelled = control.clone();
        let policy = Calls::default().policy(move |_| {
            cancelled.cancel();
            std::future::pending()
        });
        let thread = in_sandboxes(&sandboxes, policy, ReportOptions::default());
        let thread = thread.with_options(RunOptions::new().control(control));
        let error = thread.run(start("")).await.unwrap_err();
        assert!(matches!(error, RunError::Cancelled), "{error}");
        until_deleted(&sandboxes).await;
    }
}

/// The clock advances only while all tasks wait, so the result does not depend on the speed of the machine.
#[tokio::test(start_paused = true)]
async fn heartbeats_in_the_guest_reset_the_idle_timeout() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    for (idle_timeout, is_exceeded) in [(PULSE * 2, false), (PULSE / 2, true)] {
        let options = ReportOptions { idle_timeout: Some(idle_timeout), ..Default::default() };
        let thread = in_sandboxes(&sandboxes, plain_policy(), options);
        match thread.run(start("pulse")).await {
            Ok(_) => assert!(!is_exceeded),
            Err(error) => {
                let error = error.node_error::<NodeTimeoutError>().unwrap();
                assert!(is_exceeded && error.idle, "{error}");
            }
        }
    }
}

#[tokio::test]
async fn recorded_calls_of_guests_are_replayed_without_calls() {
    on_each_backend(async |sandboxes| {
        let recorder = Recorder::new();
        let options = RunOptions::new().effect_interceptor(recorder.clone());
        let thread = in_sandboxes(&sandboxes, plain_policy(), ReportOptions::default());
        let recorded = record_thread(&thread.with_options(options), start("")).await;
        let recording = recorder.recording(&recorded.trace);
        // Neither the sandbox nor the host's process makes a call.
        let denied = in_sandboxes(&sandboxes, CallPolicy::deny_all(), ReportOptions::default());
        for thread in [denied, reference(ReportOptions::default())] {
            let replayer = recording.replayer();
            let options = RunOptions::new().effect_interceptor(replayer.clone());
            let replayed = record_thread(&thread.with_options(options), start("")).await;
            let state = replayed.outcome.as_ref().unwrap().state();
            assert_eq!(state, recorded.outcome.as_ref().unwrap().state());
            assert!(replayer.unused_calls().is_empty() && replayer.unrecorded_calls().is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn payloads_fan_out_to_concurrent_sandboxes() {
    async fn assign(_: &Report) -> Vec<Goto> {
        let topics = ["tea", "milk", "water"];
        topics.iter().map(|it| Goto::send("inquire", json!(it))).collect()
    }
    let fan_out = |inquiry: &dyn Fn() -> SubgraphNode<Report, Deps>| {
        let graph = StateGraph::<Report, Deps>::new().node(assign).node(inquiry());
        graph.edge(START, assign).compile().unwrap()
    };
    let input = |topic: String| Inquiry { topic, ..Default::default() };
    let output = |it: Inquiry| Report::update().findings([it.log.join(", ")]);
    let ordinary = fan_out(&|| subgraph_on_payload("inquire", &graph(), input, output));
    let expected = ordinary.invoke(start(""), None).await.unwrap();
    assert_eq!(expected.findings.len(), 3);
    on_each_backend(async |sandboxes| {
        let options = plain_options();
        let inquiry = sandboxed(&graph(), &sandboxes, options);
        let graph = fan_out(&|| subgraph_on_payload("inquire", &inquiry, input, output));
        assert_eq!(graph.invoke(start(""), None).await.unwrap(), expected);
    })
    .await;
}

#[tokio::test]
async fn sandbox_can_have_an_exact_name_and_be_created_first() {
    on_each_backend(async |sandboxes| {
        let (names, read) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (seen, living) = (names.clone(), sandboxes.clone());
        let policy = Calls::default().policy(move |_| {
            let living = living.list().into_iter().map(|it| it.spec().name.clone());
            seen.lock().unwrap().push(living.collect::<Vec<_>>());
            async {}
        });
        let texts = read.clone();
        let options = SandboxOptions::new(Spec::new("inquiry"))
            .call_policy(policy)
            .exact_name()
            .before_delete(move |sandbox| {
                let texts = texts.clone();
                async move {
                    let text = sandbox.fs().read("note.txt").await.map(|it| it.len());
                    texts.lock().unwrap().push((sandbox.spec().name.clone(), text.ok()));
                }
            });
        let sandbox = sandboxes.create_if_not_exists(Spec::new("inquiry")).await.unwrap();
        sandbox.fs().write("note.txt", "hello").await.unwrap();
        let thread = sandboxed_thread(&sandboxes, options);
        assert!(thread.run(start("")).await.unwrap().is_done());
        let names = names.lock().unwrap().clone();
        assert!(!names.is_empty() && names.iter().all(|it| *it == ["inquiry"]), "{names:?}");
        // The first inquiry runs in the sandbox that exists already, the second one in a new sandbox.
        let (first, second) = (("inquiry".to_owned(), Some(5)), ("inquiry".to_owned(), None));
        assert_eq!(*read.lock().unwrap(), [first, second]);
    })
    .await;
}

#[tokio::test]
async fn sandbox_is_kept_only_after_a_completed_invocation() {
    on_each_backend(async |sandboxes| {
        let options = plain_options();
        let inquiry = sandboxed(&graph(), &sandboxes, options.keep_alive());
        let graph = report(&inquiry, ReportOptions::default()).unwrap();
        assert!(graph.thread("done", None).run(start("")).await.unwrap().is_done());
        assert_eq!(sandboxes.list().len(), 1, "{}", sandboxes.backend());
        graph.thread("failed", None).run(start("fail")).await.unwrap_err();
        assert_eq!(sandboxes.list().len(), 0, "{}", sandboxes.backend());
        let interrupted = graph.thread("interrupted", None).run(start("interrupt")).await.unwrap();
        assert!(!interrupted.interrupts().is_empty());
        assert_eq!(sandboxes.list().len(), 0, "{}", sandboxes.backend());
    })
    .await;
}

#[tokio::test]
async fn filtered_events_do_not_reach_the_stream_of_the_parent() {
    on_each_backend(async |sandboxes| {
        let options = plain_options();
        let is_start = |it: &Event| matches!(it.kind, EventKind::TaskStarted { .. });
        let options = options.event_filter(move |it| !is_start(it));
        let thread = sandboxed_thread(&sandboxes, options);
        let modes = RunOptions::new().stream_modes(StreamMode::DEBUG).subgraphs();
        let mut events = thread.with_options(modes).stream(start(""));
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        while let Some(event) = events.next().await {
            let all = if event.namespace.is_empty() { &mut outside } else { &mut inside };
            all.push(is_start(&event));
        }
        assert!(events.finish().await.unwrap().is_done());
        assert!(outside.contains(&true));
        assert!(!inside.is_empty() && !inside.contains(&true));
    })
    .await;
}

async fn until_deleted(sandboxes: &Sandboxes) {
    while !sandboxes.list().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn drained_run_stops_inside_the_subgraph_and_continues_there() {
    on_each_backend(async |sandboxes| {
        let (calls, control) = (Calls::default(), RunControl::new());
        let drained = control.clone();
        let policy = calls.policy(move |nth| {
            if nth == 1 {
                drained.drain();
            }
            async {}
        });
        let thread = in_sandboxes(&sandboxes, policy, ReportOptions::default());
        let draining = thread.clone().with_options(RunOptions::new().control(control));
        let outcome = draining.run(start("")).await.unwrap();
        assert!(
            matches!(outcome, RunOutcome::Stopped { reason: StopReason::Drained, .. }),
            "{outcome:?}"
        );
        let outcome = thread.proceed().await.unwrap();
        let expected = run(&reference(ReportOptions::default()), "").await.outcome.unwrap();
        assert_eq!(outcome.state(), expected.state());
        assert!(calls.made().values().all(|it| *it == 2), "{:?}", calls.made());
    })
    .await;
}

#[tokio::test]
async fn forbidden_actions_of_the_guest_fail_the_node() {
    on_each_backend(async |sandboxes| {
        for (options, mode, message) in [
            (plain_options(), "spy", "only its own checkpoints"),
            (plain_options(), "escape", "`SandboxOptions::allow_parent_commands`"),
            (plain_options().deny_interrupts(), "interrupt", "`SandboxOptions::deny_interrupts`"),
            (Spec::new("inquiry").into(), "", "calls of kind `ask` are not allowed"),
        ] {
            let error = sandboxed_thread(&sandboxes, options).run(start(mode)).await.unwrap_err();
            assert!(error.to_string().contains(message), "{mode}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn error_names_the_exceeded_limit_on_open_files() {
    on_each_backend(async |sandboxes| {
        let thread = sandboxed_thread(&sandboxes, plain_options());
        let error = thread.run(start("open-files")).await.unwrap_err().to_string();
        assert!(error.contains("the graph exceeded the sandbox's limit on open files"), "{error}");
    })
    .await;
}

/// An ordinary subgraph is also collapsed by `mermaid` and opened by `mermaid_expanded`.
#[tokio::test]
async fn drawing_marks_the_sandbox_and_keeps_the_fingerprint() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let inquiry = sandboxed(&graph(), &sandboxes, Spec::new("inquiry"));
    let options = ReportOptions::default();
    let (actual, expected) =
        (report(&inquiry, options).unwrap(), report(&graph(), options).unwrap());
    assert_eq!(actual.fingerprint(), expected.fingerprint());
    let collapsed = actual.mermaid();
    assert!(collapsed.contains("n1[[\"appendix<br/>runs in a sandbox\"]]"), "{collapsed}");
    assert_eq!(collapsed.replace("<br/>runs in a sandbox", ""), expected.mermaid());
    let opened = actual.mermaid_expanded(1);
    assert!(opened.contains("subgraph n1[\"appendix, runs in a sandbox\"]"), "{opened}");
    assert_eq!(opened.replace(", runs in a sandbox", ""), expected.mermaid_expanded(1));
    assert_eq!(actual.to_json(0)["nodes"][1]["data"]["runs_in"], "sandbox");
}

//! The sandboxes of debates: how they are named, labelled, limited and deleted, and what happens if one cannot be
//! created.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use graph_core::{Context, MemorySaver, NodeError, RunError, RunOutcome, START, StateGraph, Stops};
use llm::{RecordMode, Recording};
use sandbox_vm::{
    Error, Isolation, Sandboxes, Spec,
    backend::{Backend, Guest, Handle, InProcess},
    guest::{Agent, Host},
    report::{Guarantee, IsolationLevel, Report},
    sandbox_dir::SandboxDir,
};
use serde_json::{Value, json};

use super::run::run_config;
use crate::{
    call::LLM,
    config::Config,
    debate::{self, SandboxState, SandboxStateUpdate},
    debate_host::{DebateHost, DebateQueue, MonitoredSaver, SandboxReuse, SandboxSupply},
    event::PipelineEvent,
    fence::Fence,
    models::{CallLimits, Limit, Models},
    pipeline::{self, Deps, PipelineState},
    prompt::Brief,
    report::{Outcome, Report as RunReport},
    run::RunConfig,
    score::{Mark, MoveScore},
};

/// A back end that records the specs of its guests and the sandboxes that exist when each guest starts, claims to
/// isolate and pause them, and fails to start the first ones.
#[derive(Debug)]
struct Observed {
    inner: InProcess,
    started: Arc<Mutex<Vec<Spec>>>,
    failures_left: AtomicUsize,
    /// Guarantees in addition to those of level `process`.
    guarantees: Vec<Guarantee>,
    sandboxes: Arc<OnceLock<Sandboxes>>,
    existing: Arc<Mutex<Vec<usize>>>,
    pauses: Arc<Pauses>,
}

/// Number of times that guests were paused and resumed.
#[derive(Debug, Default)]
struct Pauses {
    paused: AtomicUsize,
    resumed: AtomicUsize,
}

impl Pauses {
    fn counts(&self) -> (usize, usize) {
        (self.paused.load(Ordering::Relaxed), self.resumed.load(Ordering::Relaxed))
    }
}

/// A handle that counts pauses.
#[derive(Debug)]
struct PausableHandle {
    handle: Arc<dyn Handle>,
    pauses: Arc<Pauses>,
}

#[async_trait]
impl Handle for PausableHandle {
    fn backend(&self) -> &'static str {
        self.handle.backend()
    }

    async fn kill(&self) {
        self.handle.kill().await;
    }

    async fn pause(&self) -> Result<(), Error> {
        self.pauses.paused.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn resume(&self) -> Result<(), Error> {
        self.pauses.resumed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Observed {
    fn new(failures: usize) -> (Self, Arc<Mutex<Vec<Spec>>>) {
        let started = Arc::new(Mutex::new(Vec::new()));
        let inner = InProcess::new(debate::agent);
        let failures_left = AtomicUsize::new(failures);
        let (sandboxes, existing, pauses) = Default::default();
        let it = Self {
            inner,
            started: started.clone(),
            failures_left,
            guarantees: vec![Guarantee::Pause],
            sandboxes,
            existing,
            pauses,
        };
        (it, started)
    }
}

#[async_trait]
impl Backend for Observed {
    fn name(&self) -> &'static str {
        "observed"
    }

    async fn probe(&self) -> Report {
        let isolated = [Guarantee::NoNetwork, Guarantee::NoHostFiles, Guarantee::OwnProcesses];
        let guarantees = isolated.into_iter().chain(self.guarantees.iter().copied());
        Report::available("observed", guarantees)
    }

    async fn start(&self, spec: &Spec, dir: &SandboxDir) -> Result<Guest, Error> {
        let fail = |left: usize| left.checked_sub(1);
        if self.failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fail).is_ok() {
            return Err(Error::Start { backend: "observed", problem: "no guest today".to_owned() });
        }
        self.started.lock().unwrap().push(spec.clone());
        let existing = self.sandboxes.get().map_or(0, |it| it.list().len());
        self.existing.lock().unwrap().push(existing);
        let Guest { channel, handle } = self.inner.start(spec, dir).await?;
        let handle = PausableHandle { handle, pauses: self.pauses.clone() };
        Ok(Guest { channel, handle: Arc::new(handle) })
    }
}

async fn open(backend: impl Backend + 'static, folder: &Path, isolation: Isolation) -> Sandboxes {
    let builder = Sandboxes::builder().backend(backend).isolation(isolation);
    builder.state_dir(folder.join("sandboxes")).open().await.unwrap()
}

/// Runs the pipeline with three moves, whose debates run in `sandboxes`.
async fn run_pipeline(
    sandboxes: Sandboxes,
    fallback: Option<Sandboxes>,
    isolation: Isolation,
    folder: &Path,
) -> Result<PipelineState, RunError> {
    let supply = SandboxSupply::new(SandboxReuse::None);
    continue_pipeline(sandboxes, supply, fallback, isolation, folder, Vec::new()).await
}

/// Like [`run_pipeline`], but the debates share sandboxes and continue from these states.
async fn continue_pipeline(
    sandboxes: Sandboxes,
    supply: SandboxSupply,
    fallback: Option<Sandboxes>,
    isolation: Isolation,
    folder: &Path,
    earlier_debates: Vec<SandboxState>,
) -> Result<PipelineState, RunError> {
    let RunConfig { run_id, ticker, data, choice, config_toml, .. } = run_config(3, 2);
    let config = Config::parse(&config_toml).unwrap();
    let recording = Recording::open(folder.join("calls.jsonl"), RecordMode::ReplayOrRecord);
    let models = Models::new(
        &config,
        choice,
        None,
        Limit::default(),
        &recording.unwrap(),
        0,
        &CallLimits::default(),
    );
    let (models, saver) = (Arc::new(models.unwrap()), Arc::new(MemorySaver::new()));
    let saver = Arc::new(MonitoredSaver::new(saver));
    let deps = Deps {
        config: config.clone(),
        data,
        fence: Fence::new("7f3a"),
        models: models.clone(),
        debates: Arc::new(DebateHost {
            config,
            fence: Fence::new("7f3a"),
            models,
            sandboxes,
            supply,
            isolation,
            fallback,
            saver: saver.clone(),
            queue: DebateQueue::new(1),
            run_id,
            baseline: false,
            log_dir: folder.join("logs"),
            is_traced: false,
            recorded_isolation: Vec::new(),
        }),
        debate_saver: None,
        review: false,
        dir: folder.to_owned(),
        scratch: None,
    };
    let thread = pipeline::graph(saver).unwrap().thread("pipeline", deps);
    let input =
        PipelineState { company_ticker: ticker, earlier_debates, ..PipelineState::default() };
    match thread.run(input).await? {
        RunOutcome::Done(state) => Ok(state),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_debate_has_its_own_labelled_sandbox_which_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (backend, started) = Observed::new(0);
    let (observed, existing) = (backend.sandboxes.clone(), backend.existing.clone());
    let sandboxes = open(backend, folder.path(), Isolation::Process).await;
    observed.set(sandboxes.clone()).unwrap();
    let state =
        run_pipeline(sandboxes.clone(), None, Isolation::Process, folder.path()).await.unwrap();
    assert_eq!(state.policy_scores.len(), 3);
    let started = started.lock().unwrap().clone();
    let names: Vec<&str> = started.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        ["negotiate-nvda-m1-test", "negotiate-nvda-m2-test", "negotiate-nvda-m3-test"]
    );
    for (spec, move_id) in started.iter().zip(["m1", "m2", "m3"]) {
        assert_eq!(spec.limits.memory, 2048 << 20);
        let labels: Vec<(&str, &str)> =
            spec.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [
            ("layer", "sandbox"),
            ("move", move_id),
            ("project", "ai-consulting-agency"),
            ("run", "test"),
            ("ticker", "NVDA"),
        ];
        assert_eq!(labels, expected);
    }
    // Between two debates, no sandbox exists.
    assert_eq!(*existing.lock().unwrap(), [0, 0, 0]);
    assert!(sandboxes.list().is_empty(), "{:?}", sandboxes.list());
    let left = std::fs::read_dir(folder.path().join("sandboxes")).unwrap().count();
    assert_eq!(left, 0, "directories of deleted sandboxes");
    assert!(state.held_in.iter().all(|it| it.isolation.level == IsolationLevel::Process));
}

/// A run with [`Observed`] guests whose debates share sandboxes.
struct SharedRun {
    state: PipelineState,
    started: Vec<Spec>,
    sandboxes: Sandboxes,
    pauses: (usize, usize),
    _folder: tempfile::TempDir,
}

async fn run_with(reuse: SandboxReuse) -> SharedRun {
    let folder = tempfile::tempdir().unwrap();
    let (backend, started) = Observed::new(0);
    let pauses = backend.pauses.clone();
    let sandboxes = open(backend, folder.path(), Isolation::Process).await;
    let (supply, isolation) = (SandboxSupply::new(reuse), Isolation::Process);
    let (own, dir) = (sandboxes.clone(), folder.path());
    let state = continue_pipeline(own, supply, None, isolation, dir, Vec::new()).await.unwrap();
    let started = started.lock().unwrap().clone();
    SharedRun { state, started, sandboxes, pauses: pauses.counts(), _folder: folder }
}

/// Checks that the sandboxes are not named and labelled for single moves, and that the results are the same as without
/// shared sandboxes.
async fn check_shared(run: &SharedRun) {
    for spec in &run.started {
        assert!(spec.name.starts_with("negotiate-nvda-test-"), "{}", spec.name);
        assert!(!spec.labels.contains_key("move"), "{:?}", spec.labels);
        assert_eq!(spec.labels["run"], "test");
    }
    let expected = run_with(SandboxReuse::None).await;
    assert_eq!(expected.started.len(), 3);
    assert_eq!(run.state.policy_scores, expected.state.policy_scores);
    assert_eq!(run.state.conversation_logs, expected.state.conversation_logs);
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_sandbox_is_paused_between_debates_and_has_no_files() {
    let run = run_with(SandboxReuse::KeepAlive).await;
    assert_eq!(run.started.len(), 1, "{:?}", run.started);
    assert_eq!(run.pauses, (3, 2));
    check_shared(&run).await;
    let sandbox = run.sandboxes.get("negotiate-nvda-test-1").unwrap();
    assert!(matches!(sandbox.ping().await, Err(Error::Paused { .. })));
    sandbox.resume().await.unwrap();
    assert!(sandbox.fs().list("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn debates_take_their_sandboxes_from_a_pool() {
    let run = run_with(SandboxReuse::Pool(NonZeroUsize::new(2).unwrap())).await;
    // The pool starts sandboxes for later debates too, each under its own name.
    let names: BTreeSet<&str> = run.started.iter().map(|it| it.name.as_str()).collect();
    assert!(names.len() >= 3 && names.len() == run.started.len(), "{names:?}");
    assert_eq!(run.pauses, (0, 0));
    check_shared(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_that_fails_once_is_created_again_in_the_same_back_end() {
    let folder = tempfile::tempdir().unwrap();
    let (backend, started) = Observed::new(1);
    let sandboxes = open(backend, folder.path(), Isolation::Process).await;
    let state = run_pipeline(sandboxes, None, Isolation::Process, folder.path()).await.unwrap();
    assert_eq!((state.policy_scores.len(), started.lock().unwrap().len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn fallback_without_isolation_is_marked_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let sandboxes = open(Observed::new(usize::MAX).0, folder.path(), Isolation::Process).await;
    let fallback = open(InProcess::new(debate::agent), folder.path(), Isolation::Off).await;
    let state = run_pipeline(sandboxes, Some(fallback), Isolation::Preferred, folder.path()).await;
    let state = state.unwrap();
    let reasons = state.status_updates.iter().filter_map(|it| match it {
        PipelineEvent::SandboxDegraded { isolation: IsolationLevel::Off, reason, .. } => {
            Some(reason)
        }
        _ => None,
    });
    let reasons: Vec<&String> = reasons.collect();
    assert!(
        reasons.len() == 3 && reasons.iter().all(|it| it.contains("no guest today")),
        "{reasons:?}"
    );
    assert_eq!(state.policy_scores.len(), 3);
    assert!(state.policy_scores.iter().all(|it| it.marks.contains(&Mark::NotIsolated)));
    assert!(state.held_in.iter().all(|it| it.isolation.level == IsolationLevel::Off));
}

/// Returns the moves and levels of the events about missing or weaker isolation.
fn degradations(state: &PipelineState) -> Vec<(Option<&str>, IsolationLevel)> {
    let degradation = |it: &PipelineEvent| match it {
        PipelineEvent::SandboxDegraded { isolation, .. } => Some(*isolation),
        _ => None,
    };
    let events = state.status_updates.iter();
    events.filter_map(|it| Some((it.move_id(), degradation(it)?))).collect()
}

/// Returns the report about a run that ended in this state.
fn report_of(state: PipelineState) -> RunReport {
    let by_move = state.held_in.into_iter().map(|it| (it.move_id, it.isolation));
    RunReport::new(Outcome {
        isolation: state.isolation.unwrap(),
        isolation_by_move: by_move.collect(),
        ..super::report::outcome()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_debate_that_falls_back_is_named_and_marks_no_other() {
    let folder = tempfile::tempdir().unwrap();
    // The back end fails twice, so only the sandbox of the first debate cannot be created.
    let sandboxes = open(Observed::new(2).0, folder.path(), Isolation::Process).await;
    let fallback = open(InProcess::new(debate::agent), folder.path(), Isolation::Off).await;
    let state = run_pipeline(sandboxes, Some(fallback), Isolation::Preferred, folder.path()).await;
    let state = state.unwrap();
    // The first event says that no debate runs in a VM.
    let expected = [(None, IsolationLevel::Process), (Some("m1"), IsolationLevel::Off)];
    assert_eq!(degradations(&state), expected);
    let is_marked = |it: &&MoveScore| it.marks.contains(&Mark::NotIsolated);
    let marked = state.policy_scores.iter().filter(is_marked).map(|it| it.move_id.to_string());
    assert_eq!(marked.collect::<Vec<_>>(), ["m1"]);
    let notice = report_of(state).isolation_notice.unwrap();
    let words = "Less isolation than in the other debates: m1 with in-process (isolation: off, NOT ISOLATED).";
    assert_eq!(notice, words);
}

#[tokio::test(flavor = "multi_thread")]
async fn debates_that_all_run_in_vms_cause_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let guarantees = vec![Guarantee::VirtualMachine, Guarantee::MemoryLimit];
    let backend = Observed { guarantees, ..Observed::new(0).0 };
    let sandboxes = open(backend, folder.path(), Isolation::Vm).await;
    let fallback = open(InProcess::new(debate::agent), folder.path(), Isolation::Off).await;
    let state = run_pipeline(sandboxes, Some(fallback), Isolation::Preferred, folder.path()).await;
    let state = state.unwrap();
    assert_eq!(state.policy_scores.len(), 3);
    assert!(degradations(&state).is_empty());
    assert!(state.policy_scores.iter().all(|it| !it.marks.contains(&Mark::NotIsolated)));
    let report = report_of(state);
    assert_eq!(report.isolation_notice, None);
    assert_eq!(report.outcome.sandboxes_text(), "observed (isolation: vm)");
    for text in [report.markdown(), report.html(), report.json()] {
        for words in
            ["NOT ISOLATED", "NOT BOUNDED", "not isolated", "ess isolation", "without isolation"]
        {
            assert!(!text.contains(words), "{words}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_says_that_memory_is_not_bounded() {
    let run = run_with(SandboxReuse::None).await;
    let reason = run.state.status_updates.iter().find_map(|it| match it {
        PipelineEvent::SandboxDegraded { reason, .. } => Some(reason),
        _ => None,
    });
    let reason = reason.unwrap();
    assert!(reason.starts_with("memory is NOT BOUNDED") && reason.contains("for VMs"), "{reason}");
    // The report and the summary say so too.
    assert!(run.state.isolation.as_ref().is_some_and(|it| it.memory_unbounded));
}

#[tokio::test(flavor = "multi_thread")]
async fn required_isolation_has_no_fallback() {
    let folder = tempfile::tempdir().unwrap();
    let sandboxes = open(Observed::new(usize::MAX).0, folder.path(), Isolation::Process).await;
    let error = run_pipeline(sandboxes, None, Isolation::Process, folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("no guest today"), "{error}");
}

async fn interrupt(_: &SandboxState, cx: &Context) -> Result<SandboxStateUpdate, NodeError> {
    cx.interrupt::<String>("your password?")?;
    Ok(SandboxState::update())
}

/// Returns an agent whose debates interrupt the run or stop it.
fn hostile_agent(stop_before: Stops) -> Agent {
    Agent::new().graph(debate::GRAPH, move |_| {
        let graph = StateGraph::<SandboxState>::new().name(debate::GRAPH).node(interrupt);
        let graph = graph.edge(START, interrupt).stop_before(stop_before.clone());
        Ok((graph.compile()?, ()))
    })
}

/// Makes a model call whose request does not have the type of a model call.
async fn call_with_text(
    _: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let request = json!({ "agent_id": "critic", "request": "Who are you?" });
    let _: Value = cx.deps().call(cx, LLM.kind(), "opening", request).await?;
    Ok(SandboxState::update())
}

/// Calls a function that the host does not have.
async fn call_unknown_function(
    _: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let _: Value = cx.deps().call(cx, "shell", "opening", "id").await?;
    Ok(SandboxState::update())
}

fn mistyping_agent() -> Agent {
    Agent::new().graph(debate::GRAPH, |host: &Host| {
        let graph = StateGraph::<SandboxState, Host>::new().name(debate::GRAPH);
        let graph = graph.node(call_with_text).edge(START, call_with_text);
        Ok((graph.compile()?, host.clone()))
    })
}

fn guessing_agent() -> Agent {
    Agent::new().graph(debate::GRAPH, |host: &Host| {
        let graph = StateGraph::<SandboxState, Host>::new().name(debate::GRAPH);
        let graph = graph.node(call_unknown_function).edge(START, call_unknown_function);
        Ok((graph.compile()?, host.clone()))
    })
}

/// A back end whose guests about m1 and m2 are hostile. Contains the agents of these two guests.
#[derive(Debug)]
struct HostileGuests(fn() -> Agent, fn() -> Agent);

#[async_trait]
impl Backend for HostileGuests {
    fn name(&self) -> &'static str {
        "hostile"
    }

    async fn probe(&self) -> Report {
        Report::available("hostile", [])
    }

    async fn start(&self, spec: &Spec, dir: &SandboxDir) -> Result<Guest, Error> {
        let backend = match spec.labels["move"].as_str() {
            "m1" => InProcess::new(self.0),
            "m2" => InProcess::new(self.1),
            _ => InProcess::new(debate::agent),
        };
        backend.start(spec, dir).await
    }
}

/// Runs the pipeline with hostile guests about m1 and m2, and checks that only their debates fail. Returns the problems
/// of the two debates.
async fn check_hostile(guests: HostileGuests) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let sandboxes = open(guests, folder.path(), Isolation::Off).await;
    let state = run_pipeline(sandboxes, None, Isolation::Off, folder.path()).await.unwrap();
    let mut unscored = state.unscored_moves.clone();
    unscored.sort_by_key(|it| it.move_id);
    let ids: Vec<String> = unscored.iter().map(|it| it.move_id.to_string()).collect();
    assert_eq!((ids, state.policy_scores.len()), (vec!["m1".to_owned(), "m2".to_owned()], 1));
    [0, 1].map(|it: usize| unscored[it].reason.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_that_interrupt_or_stop_fail_only_their_debates() {
    let guests = HostileGuests(|| hostile_agent(Stops::None), || hostile_agent(Stops::All));
    for problem in check_hostile(guests).await {
        assert!(problem.contains("interrupted or stopped it, which is not allowed"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_a_wrong_type_or_name_are_refused() {
    let [mistyped, unknown] = check_hostile(HostileGuests(mistyping_agent, guessing_agent)).await;
    assert!(mistyped.contains("the request to `llm` is invalid: "), "{mistyped}");
    assert!(unknown.contains("`shell`"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_earlier_states_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |name: &str, earlier_debates: Vec<SandboxState>| {
        let (backend, started) = Observed::new(0);
        let dir = folder.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let sandboxes = open(backend, &dir, Isolation::Process).await;
        let isolation = Isolation::Process;
        let supply = SandboxSupply::new(SandboxReuse::None);
        let state =
            continue_pipeline(sandboxes, supply, None, isolation, &dir, earlier_debates).await;
        let started = started.lock().unwrap().len();
        (state.unwrap(), started)
    };
    let (expected, _) = run("first", Vec::new()).await;
    let moves = expected.moves();
    let brief = |index: usize| Brief::new(&moves[index], &expected.findings);
    let scores = expected.policy_scores[0].scores_by_agent.clone();
    let earlier = vec![
        // A finished debate with too many rounds.
        SandboxState { brief: brief(0), current_round: 3, scores, ..SandboxState::default() },
        // An unfinished debate with other settings.
        SandboxState { brief: brief(1), max_rounds: 9, ..SandboxState::default() },
    ];
    let (state, started) = run("second", earlier).await;
    assert_eq!(started, 3);
    assert!(state.failures.is_empty(), "{:?}", state.failures);
    assert_eq!(state.conversation_logs, expected.conversation_logs);
    assert_eq!(state.policy_scores, expected.policy_scores);
}

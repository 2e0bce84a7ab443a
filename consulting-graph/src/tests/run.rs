//! Whole runs, with the scripted model and in-process sandboxes.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use graph_trace::{Detail, TextOptions, Trace};
use llm::{Llm, RecordMode, Recording, RecordingDecoder};
use sandbox_vm::Isolation;

use super::compressed_snapshot::assert_compressed_snapshot;
use crate::{
    config::DEFAULT,
    data::{DataOrigin, DataSource},
    event::{EventLog, NumberedEvent, PipelineEvent, RoundStatus},
    models::{Limit, ModelChoice},
    offline,
    pipeline::{ReviewDecision, debate_traces},
    report::Report,
    run::{ForkPoint, ResumeOptions, Run, RunConfig, RunError, RunOutcome},
};

/// Returns the configuration of a run with this number of analysts, each of whom proposes one move, and this number of
/// rounds.
pub(crate) fn run_config(analysts: usize, rounds: u32) -> RunConfig {
    let mut config: toml::Table = toml::from_str(DEFAULT).unwrap();
    config["rounds"] = i64::from(rounds).into();
    config["moves_per_analyst"] = 1.into();
    config["analysts"].as_array_mut().unwrap().truncate(analysts);
    with_config(toml::to_string(&config).unwrap())
}

/// Changes the configuration of a run.
pub(crate) fn edit_config(config: RunConfig, edit: impl FnOnce(&mut toml::Table)) -> RunConfig {
    let mut table: toml::Table = config.config_toml.parse().unwrap();
    edit(&mut table);
    RunConfig { config_toml: table.to_string(), ..config }
}

fn with_config(config_toml: String) -> RunConfig {
    RunConfig {
        run_id: "test".to_owned(),
        ticker: "NVDA".to_owned(),
        data: DataSource {
            origin: DataOrigin::Synthetic,
            as_of: chrono::NaiveDate::from_ymd_opt(2026, 3, 1).unwrap(),
        },
        choice: ModelChoice { seed: 7, ..ModelChoice::for_provider("scripted") },
        baseline: false,
        review: false,
        nonce: "7f3a".to_owned(),
        config_toml,
    }
}

pub(crate) fn resume_options() -> ResumeOptions {
    ResumeOptions {
        isolation: Some(Isolation::Off),
        backend: Some("in-process".to_owned()),
        ..ResumeOptions::default()
    }
}

pub(crate) async fn finish(run: &Run, options: ResumeOptions) -> (Report, Option<Box<Trace>>) {
    match run.resume(options, |_| {}).await.unwrap() {
        RunOutcome::Complete { report, trace, .. } => (*report, trace),
        RunOutcome::AwaitingReview(_) => panic!("unexpected review"),
    }
}

/// Returns the number of calls in the recording of a run.
pub(crate) fn recorded_calls(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap();
    text.lines().count() - 1
}

/// Returns the lines of the recording of a run, as JSON.
pub(crate) fn recording_lines(folder: &Path) -> Vec<String> {
    let bytes = std::fs::read(folder.join("calls.jsonl")).unwrap();
    let mut decoder = RecordingDecoder::default();
    let decode = |it: &[u8]| String::from_utf8(decoder.decode(it).unwrap().into_owned()).unwrap();
    bytes.trim_ascii_end().split(|it| *it == b'\n').map(decode).collect()
}

/// Returns the requests in the recording of a run, as JSON.
pub(crate) fn recorded_prompts(folder: &Path) -> Vec<String> {
    let recording = Recording::open(folder.join("calls.jsonl"), RecordMode::Replay).unwrap();
    recording.answered_calls().map(|it| serde_json::to_string(&it.0).unwrap()).collect()
}

/// Checks that a replay of the run produces the same report.
pub(crate) async fn check_replay(run: &Run, report: &Report) {
    let dir = tempfile::tempdir().unwrap();
    let replayed = run.replay(dir.path(), resume_options(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json(), "{}", run.dir().display());
}

/// Returns the number of bytes of all files below a directory.
fn size_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap());
    let size = |it: std::fs::DirEntry| {
        if it.path().is_dir() { size_of(&it.path()) } else { it.metadata().unwrap().len() }
    };
    entries.map(size).sum()
}

/// Returns the sizes of the files and directories in a directory, largest first.
fn file_sizes(dir: &Path) -> Vec<(u64, String)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap());
    let size = |it: std::fs::DirEntry| {
        let (path, name) = (it.path(), it.file_name().to_string_lossy().into_owned());
        let bytes = if path.is_dir() { size_of(&path) } else { it.metadata().unwrap().len() };
        (bytes, name)
    };
    let mut sizes: Vec<(u64, String)> = entries.map(size).collect();
    sizes.sort_by(|a, b| b.cmp(a));
    sizes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_run_has_the_documented_results() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), with_config(DEFAULT.to_owned())).unwrap();
    let seen = AtomicU32::new(0);
    let options = ResumeOptions { concurrency: 4, trace: true, ..resume_options() };
    let count = |_: &NumberedEvent| {
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let outcome = run.resume(options, count).await.unwrap();
    let RunOutcome::Complete { report, trace, .. } = outcome else { panic!("{outcome:?}") };

    // Expects 924 calls (9 before the debates, and 61 for each of 15 moves), plus retries.
    let calls: u64 = report.outcome.spending.iter().map(|it| it.calls).sum();
    let retry_prompts = ["Your scores could not be read.", "This answer cannot be used yet:"];
    let is_retry = |prompt: &&String| retry_prompts.iter().any(|it| prompt.contains(it));
    let retries = recorded_prompts(folder.path()).iter().filter(is_retry).count();
    assert_eq!(calls, 924 + retries as u64);
    assert_eq!(recorded_calls(folder.path()) as u64, calls);
    assert_eq!(report.outcome.moves.len(), 15);
    assert_eq!((report.ranking.recommended.len(), report.ranking.other.len()), (3, 12));
    for logs in report.outcome.logs.values() {
        assert_eq!(logs.keys().collect::<Vec<_>>(), ["i1", "i2", "i3"]);
        assert!(logs.values().all(|it| it.len() == 20));
    }
    let trace = trace.unwrap();
    let debates = debate_traces(&trace).unwrap();
    assert_eq!(debates.len(), 15);
    for (name, trace) in debates {
        let steps = trace.root.steps.iter().filter(|it| !it.tasks.is_empty()).count();
        assert_eq!(steps, 21, "{name}");
    }
    let events = EventLog::read(&folder.path().join("events.jsonl")).unwrap();
    assert_eq!(events.len(), seen.load(Ordering::Relaxed) as usize);
    assert!(events.iter().zip(1..).all(|(it, seq)| it.seq == seq));
    let mut rounds: BTreeMap<RoundStatus, u32> = BTreeMap::new();
    for event in &events {
        if let PipelineEvent::SandboxRound { status, .. } = event.event {
            *rounds.entry(status).or_default() += 1;
        }
    }
    assert_eq!(rounds.len(), 4, "{rounds:?}");
    assert!(rounds.values().all(|it| *it == 150), "{rounds:?}");
    for name in ["report.md", "report.html", "report.json", "F1.md", "F2.md", "m1.md", "m15.md"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let log = std::fs::read_to_string(folder.path().join("logs/m7/i2.md")).unwrap();
    assert!(log.starts_with("**[Round 1] CRITIC:**\n"), "{log}");
    let markdown = std::fs::read(folder.path().join("report.md")).unwrap();
    assert!(markdown.len() < 60_000, "report.md has {} bytes", markdown.len());
    let size = size_of(folder.path());
    assert!(size <= 5_000_000, "the run has {size} bytes: {:?}", file_sizes(folder.path()));
    // All steps, calls, writes and events of the pipeline and of its debates.
    let text = trace.text(TextOptions::new(Detail::Updates));
    assert_compressed_snapshot("trace_full_size", &text);
}

/// Returns the offline board without its deliberate mistakes.
fn model_without_mistakes() -> Option<Llm> {
    Some(offline::Board { mistakes: false, ..offline::Board::new(7) }.model())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_retries_makes_61_calls_per_move() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(2, 10)).unwrap();
    let options = ResumeOptions { model_override: model_without_mistakes(), ..resume_options() };
    let (report, _) = finish(&run, options).await;
    assert_eq!(recorded_calls(folder.path()), 4 + 2 + 2 * 61);
    assert!(report.outcome.spending_by_move.iter().all(|it| it.calls == 61));
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_of_a_small_run_contains_its_debate() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(1, 3)).unwrap();
    let (_, trace) = finish(&run, ResumeOptions { trace: true, ..resume_options() }).await;
    let text = trace.unwrap().text(TextOptions::new(Detail::Routes));
    // Skips the first line, which is the input.
    let (_, steps) = text.split_once('\n').unwrap();
    insta::assert_snapshot!("trace_pipeline", steps);
}

/// The whole pipeline with all debates: 5 analysts, 15 moves and 3 rounds.
#[tokio::test(flavor = "multi_thread")]
async fn trace_of_a_whole_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let mut config: toml::Table = toml::from_str(DEFAULT).unwrap();
    config["rounds"] = 3.into();
    let run_config = with_config(toml::to_string(&config).unwrap());
    let run = Run::create(folder.path(), run_config).unwrap();
    let options = ResumeOptions { concurrency: 3, trace: true, ..resume_options() };
    let (_, trace) = finish(&run, options).await;
    let text = trace.unwrap().text(TextOptions::new(Detail::Routes));
    insta::assert_snapshot!("trace_whole_pipeline", text);
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_are_identical_and_detect_changed_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(2, 2)).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    let replayed = run.replay(folder.path().join("again"), resume_options(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());
    assert!(replayed.files.len() >= 20, "{:?}", replayed.files);

    // A changed answer in the recording is detected.
    let calls = folder.path().join("run/calls.jsonl");
    let mut lines = recording_lines(run.dir());
    let opening =
        lines.iter_mut().find(|it| it.contains("Give your initial counterpoints")).unwrap();
    let mut call: serde_json::Value = serde_json::from_str(opening).unwrap();
    let answer = call.pointer_mut("/outcome/response/content/0/text").unwrap();
    *answer = format!("{} And more.", answer.as_str().unwrap()).into();
    *opening = call.to_string();
    std::fs::write(&calls, lines.join("\n") + "\n").unwrap();
    let changed = run.replay(folder.path().join("bent"), resume_options(), |_| {}).await;
    assert!(changed.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_executes_only_what_follows_its_fork_point() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(3, 4)).unwrap();
    let (before, _) = finish(&run, resume_options()).await;
    let calls = recorded_calls(run.dir());
    let at: ForkPoint = "m2:r3".parse().unwrap();
    let set = ["critic.persona=You were a nurse.".to_owned()];
    let fork = folder.path().join("fork");
    let fork = run.fork(&fork, "fork".to_owned(), at, true, &set).await.unwrap();
    let (after, _) = finish(&fork, resume_options()).await;
    // Expects rounds 3 and 4 with three critic turns and three answers each, three scores, and possibly retries.
    let made = recorded_calls(fork.dir()) - calls;
    assert!((15..=18).contains(&made), "{made}");
    assert_eq!(after.outcome.own_spending.as_ref().unwrap().calls, made as u64);
    assert_eq!(before.outcome.own_spending, None);
    let logs = |it: &Report, id: usize| it.outcome.logs.values().nth(id).unwrap().clone();
    assert_eq!((logs(&before, 0), logs(&before, 2)), (logs(&after, 0), logs(&after, 2)));
    for name in ["i1", "i2", "i3"] {
        let (then, now) = (&logs(&before, 1)[name], &logs(&after, 1)[name]);
        assert_eq!(then[..4], now[..4]);
        assert_ne!(then[4], now[4]);
    }
    check_replay(&fork, &after).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_without_changed_settings_repeats_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(2, 2)).unwrap();
    let (before, _) = finish(&run, resume_options()).await;
    let inherited = recorded_calls(run.dir());
    let at = "m2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, true, &[]).await;
    let fork = fork.unwrap();
    let model_override = Some(offline::model(8));
    let (after, _) = finish(&fork, ResumeOptions { model_override, ..resume_options() }).await;
    // The whole debate about m2: an opening, 3 answers, 3 replies of the critic, 3 answers and 3 scores.
    let made = recorded_calls(fork.dir()) - inherited;
    assert!((13..=16).contains(&made), "{made}");
    let logs = |it: &Report, id: usize| it.outcome.logs.values().nth(id).unwrap().clone();
    assert_eq!(logs(&before, 0), logs(&after, 0));
    assert_ne!(logs(&before, 1), logs(&after, 1));
    check_replay(&fork, &after).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_name_the_debates_with_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(3, 1)).unwrap();
    finish(&run, resume_options()).await;
    let set = ["critic.persona=You were a nurse.".to_owned()];
    let at = "m2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &set).await;
    let (report, _) = finish(&fork.unwrap(), resume_options()).await;
    let text = report.markdown();
    let expected = "The ranking mixes settings: m1 were debated in test, without critic.persona=";
    assert!(text.split_once("## Recommended").unwrap().0.contains(expected), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_names_the_round_at_which_a_fork_diverges() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(4, 6)).unwrap();
    finish(&run, resume_options()).await;
    let set = ["critic.persona=You were a nurse.".to_owned()];
    let at = "m4:r5".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &set).await;
    let fork = fork.unwrap();
    finish(&fork, resume_options()).await;
    let found = crate::diff::diff(&run, &fork).unwrap();
    let place = found.first.unwrap().place;
    assert!(place.starts_with("m4:r5 critic"), "{place}");
    assert_eq!(found.cost.a.own_calls, None);
    assert!(found.cost.b.own_calls.is_some_and(|it| it < found.cost.b.calls));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_budget_ends_rounds_but_not_scoring() {
    let folder = tempfile::tempdir().unwrap();
    let with_config = Run::create(folder.path().join("whole"), run_config(1, 6)).unwrap();
    let (report, _) = finish(&with_config, resume_options()).await;
    let tokens: u64 =
        report.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum();
    let run = Run::create(folder.path().join("run"), run_config(1, 6)).unwrap();
    let limit = Limit { tokens: Some(tokens / 2), money: None };
    let (report, _) = finish(&run, ResumeOptions { limit, ..resume_options() }).await;
    let spent: u64 =
        report.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum();
    assert!(spent <= tokens / 2, "{spent} of {}", tokens / 2);
    let marks = format!("{:?}", report.outcome.scores[0].marks);
    assert!(marks.contains("Incomplete"), "{marks}");
    let events = EventLog::read(&run.dir().join("events.jsonl")).unwrap();
    assert!(events.iter().any(|it| matches!(it.event, PipelineEvent::BudgetExceeded { .. })));
}

/// Returns the number of tokens that a run spent.
fn tokens(report: &Report) -> u64 {
    report.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_runs_and_recordings_are_not_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 2)).unwrap();
    let (_, _) = finish(&run, resume_options()).await;
    let calls = run.dir().join("calls.jsonl");
    let with_config = std::fs::read_to_string(&calls).unwrap();
    let half: Vec<&str> = with_config.lines().take(with_config.lines().count() - 2).collect();
    std::fs::write(&calls, half.join("\n") + "\n").unwrap();
    let replayed = run.replay(folder.path().join("half"), resume_options(), |_| {}).await;
    assert!(matches!(replayed, Err(RunError::IncompleteRecording(_))), "{replayed:?}");

    std::fs::write(&calls, with_config).unwrap();
    std::fs::write(run.dir().join("m9.md"), "of another run").unwrap();
    let replayed = run.replay(folder.path().join("more"), resume_options(), |_| {}).await;
    assert!(
        matches!(&replayed, Err(RunError::ReplayDiffers(it)) if it == &["m9.md"]),
        "{replayed:?}"
    );

    std::fs::remove_file(run.dir().join("report.json")).unwrap();
    let replayed = run.replay(folder.path().join("no"), resume_options(), |_| {}).await;
    assert!(matches!(replayed, Err(RunError::InvalidRequest(_))), "{replayed:?}");
    assert!(!folder.path().join("no").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_replayed_and_repeated_for_new_moves() {
    let folder = tempfile::tempdir().unwrap();
    let config = RunConfig { review: true, ..run_config(2, 2) };
    let run = Run::create(folder.path().join("run"), config).unwrap();
    let outcome = run.resume(resume_options(), |_| {}).await.unwrap();
    let RunOutcome::AwaitingReview(review) = outcome else { panic!("{outcome:?}") };
    let mut moves = review.moves;
    moves.truncate(1);
    moves[0].draft.title = "Do nothing".to_owned();
    let decision = || Some(ReviewDecision { moves: moves.clone() });
    let (report, _) = finish(&run, ResumeOptions { review: decision(), ..resume_options() }).await;
    assert_eq!(report.outcome.moves[0].draft.title, "Do nothing");
    check_replay(&run, &report).await;

    // A second decision is rejected and not stored, because the run is no longer waiting for a review.
    let stored = std::fs::read(run.dir().join("reviewed.json")).unwrap();
    moves[0].draft.title = "Do much".to_owned();
    let decision = || Some(ReviewDecision { moves: moves.clone() });
    let rejected =
        run.resume(ResumeOptions { review: decision(), ..resume_options() }, |_| {}).await;
    assert!(matches!(rejected, Err(RunError::NotAwaitingReview)), "{rejected:?}");
    assert_eq!(std::fs::read(run.dir().join("reviewed.json")).unwrap(), stored);

    let fork = async |name: &str, at: &str| {
        let at = at.parse().unwrap();
        run.fork(folder.path().join(name), name.to_owned(), at, false, &[]).await.unwrap()
    };
    let (report, _) = finish(&fork("later", "m1:r2").await, resume_options()).await;
    assert_eq!(report.outcome.moves[0].draft.title, "Do nothing");
    let earlier = fork("earlier", "layer_2").await;
    let outcome = earlier.resume(resume_options(), |_| {}).await.unwrap();
    assert!(matches!(outcome, RunOutcome::AwaitingReview(it) if it.moves.len() == 2));
    let (report, _) =
        finish(&earlier, ResumeOptions { review: decision(), ..resume_options() }).await;
    check_replay(&earlier, &report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spending_limits_are_stored_inherited_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let with_config = Run::create(folder.path().join("whole"), run_config(1, 6)).unwrap();
    let all = tokens(&finish(&with_config, resume_options()).await.0);
    let run = Run::create(folder.path().join("run"), run_config(1, 6)).unwrap();
    let limit = Limit { tokens: Some(all / 2), money: None };
    let (report, _) = finish(&run, ResumeOptions { limit, ..resume_options() }).await;
    assert!(tokens(&report) <= all / 2);
    check_replay(&run, &report).await;

    // A fork inherits the limit, but only its own calls count towards it, so the limit suffices for more of the debate.
    let run = Run::open(run.dir()).unwrap();
    assert_eq!(run.manifest().limit, limit);
    let at = "m1:r2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, true, &[]).await;
    let fork = fork.unwrap();
    assert_eq!(fork.manifest().limit, limit);
    let (longer, _) = finish(&fork, resume_options()).await;
    assert!(tokens(&longer) > tokens(&report), "{} {}", tokens(&longer), tokens(&report));

    // Recorded calls count towards the limit, but they are replayed before the budget is checked. The repeated run
    // makes no new calls, so no call is refused.
    std::fs::remove_file(run.dir().join("state.db")).unwrap();
    let (again, _) = finish(&run, resume_options()).await;
    assert_eq!(again.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_are_limited_to_the_rounds_and_settings_of_their_origin() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 4)).unwrap();
    finish(&run, resume_options()).await;
    let fork = async |run: &Run, name: &str, at: &str, set: &str| {
        let (folder, set) = (folder.path().join(name), [set.to_owned()]);
        run.fork(folder, name.to_owned(), at.parse().unwrap(), false, &set).await
    };
    let short = fork(&run, "short", "m1:r2", "rounds=2").await.unwrap();
    finish(&short, resume_options()).await;
    let rejected = fork(&short, "wrong", "m1:r4", "rounds=6").await;
    assert!(matches!(rejected, Err(RunError::InvalidRequest(_))), "{rejected:?}");
    assert!(!folder.path().join("wrong").exists());
    assert!(fork(&short, "right", "m1:r2", "rounds=6").await.is_ok());

    for set in ["models.analysts.temperature=0.1", "rounds=2", "D1.id=D9", "impact.id=oomph"] {
        let rejected = fork(&run, "refused", "m1:r4", set).await;
        assert!(matches!(rejected, Err(RunError::Setting { .. })), "{set}: {rejected:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_cannot_keep_debates_with_more_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(2, 4)).unwrap();
    finish(&run, resume_options()).await;
    let fork = async |at: &str| {
        let (dir, set) = (folder.path().join("fork"), ["rounds=2".to_owned()]);
        run.fork(dir, "fork".to_owned(), at.parse().unwrap(), false, &set).await
    };
    let error = fork("m2:r2").await.unwrap_err().to_string();
    assert!(error.contains("the fork keeps the debate about m1, which has 4 rounds"), "{error}");
    assert!(!folder.path().join("fork").exists());
    let (report, _) = finish(&fork("m1:r2").await.unwrap(), resume_options()).await;
    assert_eq!((report.outcome.scores.len(), report.ranking.unscored.len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_debates_have_all_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(2, 2)).unwrap();
    finish(&run, resume_options()).await;
    let at = "m2:r2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, true, &[]).await;
    let fork = fork.unwrap();
    finish(&fork, resume_options()).await;
    for name in ["i1.md", "i3.md", "scores.json"] {
        let read = |run: &Run| std::fs::read(run.dir().join("logs/m1").join(name)).unwrap();
        assert_eq!(read(&run), read(&fork), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_manifests_and_versions_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    Run::create(folder.path(), run_config(1, 1)).unwrap();
    let path = folder.path().join("run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"NVDA\"", "\"AAPL\"")).unwrap();
    let opened = Run::open(folder.path());
    assert!(matches!(opened, Err(RunError::Incompatible(_))), "{opened:?}");

    let version = format!("\"graph-core\": \"{}\"", graph_core::VERSION);
    std::fs::write(&path, text.replace(&version, "\"graph-core\": \"0.0.1\"")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("created with graph-core 0.0.1, but this program has"), "{error}");
    assert!(Run::open_unchecked(folder.path()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_runs_are_neither_executed_nor_forked() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), run_config(1, 1)).unwrap();
    let lock = std::fs::File::create(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let rejected = run.resume(resume_options(), |_| {}).await;
    assert!(matches!(rejected, Err(RunError::Locked(_))), "{rejected:?}");
    assert!(!folder.path().join("events.jsonl").exists());
    let at = "layer_0".parse().unwrap();
    let rejected = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    assert!(matches!(rejected, Err(RunError::Locked(_))), "{rejected:?}");
    lock.unlock().unwrap();
    finish(&run, resume_options()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_findings_are_requested_from_empty_documents() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    // A single year has no trends.
    let table = "item,FY2025\nRevenue,520000000\nNet income,60000000\nCash,120000000\n";
    std::fs::write(data.join("statements.csv"), table).unwrap();
    let mut config = run_config(1, 1);
    config.data.origin = DataOrigin::Dir { folder: data };
    let run = Run::create(folder.path().join("run"), config).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    let numbers: Vec<usize> = report.outcome.findings.iter().map(|it| it.findings.len()).collect();
    assert!(numbers[0] > 0 && numbers[1] == 0, "{numbers:?}");
    let warnings = report.outcome.warnings.join("\n");
    assert!(warnings.contains("F2: skipped, because the data source has nothing"), "{warnings}");
    assert!(!warnings.contains("no finding of F2"), "{warnings}");
    let recording = recording_lines(run.dir()).join("\n");
    assert!(!recording.contains("one of sentiment"));
    assert!(recording.contains("from F1, since there is no data for F2"));
}

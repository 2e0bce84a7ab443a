//! Resuming runs: after failures, with a higher limit, and with stored options.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use graph_core::Checkpointer;
use graph_store::sqlite::SqliteSaver;
use llm::{Llm, Request};
use sandbox_vm::Isolation;

use super::{
    faults::without_spending,
    models::{Reaction, last_message, reacting_model},
    run::{check_replay, finish, resume_options, run_config},
};
use crate::{
    models::Limit,
    report::Report,
    run::{ResumeOptions, Run, RunConfig, RunError, RunOutcome},
    score::{Mark, MoveScore},
};

/// Returns a scripted model that fails the calls for which `fails` returns true, and a counter of the other calls.
fn failing_model(
    fails: impl Fn(&Request) -> bool + Send + Sync + 'static,
) -> (Option<Llm>, CallCount) {
    let answered = CallCount::default();
    let count = answered.clone();
    let model_override = reacting_model(move |_, request| {
        if fails(request) {
            return Reaction::Fail("the model is unavailable".to_owned());
        }
        count.0.fetch_add(1, Ordering::Relaxed);
        Reaction::Delay(Duration::ZERO)
    });
    (model_override, answered)
}

/// Counter of answered calls.
#[derive(Clone, Default)]
struct CallCount(Arc<AtomicUsize>);

impl CallCount {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn is_about(request: &Request, move_id: &str) -> bool {
    request.messages.iter().any(|it| it.text().contains(&format!("move {move_id}")))
}

fn is_scoring(request: &Request) -> bool {
    request.schema.is_some() && last_message(request).contains("Metrics:")
}

fn unscored(report: &Report) -> Vec<String> {
    report.ranking.unscored.iter().map(|it| it.move_id.to_string()).collect()
}

/// Returns the result of an uninterrupted run and its number of calls.
async fn uninterrupted(folder: &Path, run_config: RunConfig) -> (String, usize) {
    let run = Run::create(folder.join("uninterrupted"), run_config).unwrap();
    let (model_override, answered) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(unscored(&report), [""; 0]);
    (report.json(), answered.count())
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_a_complete_run_debates_moves_without_a_score() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, all_calls) = uninterrupted(folder.path(), run_config(3, 2)).await;
    let run = Run::create(folder.path().join("run"), run_config(3, 2)).unwrap();
    let (model_override, answered) = failing_model(|it| is_about(it, "m2") || is_about(it, "m3"));
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(unscored(&report), ["m2", "m3"]);
    let before = answered.count();
    check_replay(&run, &report).await;

    let (model_override, answered) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(report.json(), expected);
    assert_eq!(before + answered.count(), all_calls);
    check_replay(&run, &report).await;

    let (model_override, answered) = failing_model(|_| false);
    let result =
        run.resume(ResumeOptions { model_override, ..resume_options() }, |_| {}).await.unwrap();
    assert!(matches!(result, RunOutcome::Complete { was_complete: true, .. }), "{result:?}");
    assert_eq!(answered.count(), 0);
}

/// A resumed run does not repeat calls whose answers are in the database, and a replay reads them from the recording. A
/// power failure must therefore not leave an answer in the database alone.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_stored_before_its_recording_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, all_calls) = uninterrupted(folder.path(), run_config(1, 1)).await;
    let run = Run::create(folder.path().join("run"), run_config(1, 1)).unwrap();
    let recording = run.dir().join("calls.jsonl");
    // This device can be written, but not synced.
    symlink("/dev/null", &recording).unwrap();
    let (model_override, _) = failing_model(|_| false);
    let error = run.resume(ResumeOptions { model_override, ..resume_options() }, |_| {}).await;
    let message = error.unwrap_err().to_string();
    assert!(message.contains("cannot read or write the recording"), "{message}");

    fs::remove_file(&recording).unwrap();
    let (model_override, answered) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!((report.json(), answered.count()), (expected, all_calls));
    check_replay(&run, &report).await;
}

/// Returns the namespaces of the pipeline's thread, which contain the checkpoints of the debates.
async fn namespaces(run: &Run) -> Vec<String> {
    let saver = SqliteSaver::open(run.dir().join("state.db")).unwrap();
    let namespaces = saver.namespaces("pipeline").await.unwrap();
    namespaces.into_iter().map(|it| it.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_narration_is_repeated_and_the_history_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, all_calls) = uninterrupted(folder.path(), run_config(2, 2)).await;
    let run = Run::create(folder.path().join("run"), run_config(2, 2)).unwrap();
    let narrator = run.config().synthesizers.news.system_prompt.clone();
    let (model_override, answered) = failing_model(move |it| {
        it.system.as_ref().is_some_and(|system| system.contains(narrator.trim()))
    });
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_ne!(report.json(), expected);
    let (before, history) = (answered.count(), namespaces(&run).await);
    assert!(history.iter().any(|it| it.starts_with("sandbox_debate:")), "{history:?}");

    let (model_override, answered) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(report.json(), expected);
    assert_eq!(before + answered.count(), all_calls);
    let kept = namespaces(&run).await;
    assert!(history.iter().all(|it| kept.contains(it)), "{history:?} became {kept:?}");
    check_replay(&run, &report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_narration_is_reported_and_requested_again() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, _) = uninterrupted(folder.path(), run_config(1, 1)).await;
    let expected: Report = serde_json::from_str(&expected).unwrap();
    let data = fs::read_to_string(folder.path().join("uninterrupted/news.md")).unwrap();
    let text = "Demand for the products of the company grew. ".repeat(10);
    for (name, is_cut, text, problem) in [
        ("short", false, "Demand grew.".to_owned(), "the text has 12 bytes"),
        ("long", false, text.repeat(250), "which does not fit data of"),
        ("refused", false, "I'm sorry, but I can't help with that.".to_owned(), "refused"),
        ("cut", true, text, "the text ends at the token limit of the model"),
    ] {
        let run = Run::create(folder.path().join(name), run_config(1, 1)).unwrap();
        let narrator = run.config().synthesizers.news.system_prompt.clone();
        let model_override = reacting_model(move |_, request| {
            match request.system.as_ref().is_some_and(|it| it.contains(narrator.trim())) {
                true if is_cut => Reaction::Cut(text.clone()),
                true => Reaction::Say(text.clone()),
                false => Reaction::Delay(Duration::ZERO),
            }
        });
        let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
        assert!(report.is_incomplete(), "{name}");
        let [failure] = report.outcome.failures.as_slice() else {
            panic!("{name}: {:?}", report.outcome.failures)
        };
        assert_eq!(failure.place, run.config().synthesizers.news.id, "{name}");
        assert!(failure.reason.contains(problem), "{name}: {failure:?}");
        // The computed document remains, and the narration is absent.
        assert_eq!(fs::read_to_string(run.dir().join("news.md")).unwrap(), data, "{name}");
        assert!(!run.dir().join("news-narrated.md").exists(), "{name}");

        let (model_override, answered) = failing_model(|_| false);
        let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
        assert_eq!(without_spending(&report), without_spending(&expected), "{name}");
        assert_eq!(answered.count(), 1, "{name}");
        check_replay(&run, &report).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_analysts_are_named_with_the_cause_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, _) = uninterrupted(folder.path(), run_config(3, 1)).await;
    let run = Run::create(folder.path().join("run"), run_config(3, 1)).unwrap();
    let names: Vec<String> =
        run.config().analysts.iter().map(|it| it.system_prompt.clone()).collect();
    let (model_override, _) = failing_model(move |it| {
        let system = it.system.clone().unwrap_or_default();
        names[1..].iter().any(|name| system.contains(name.trim()))
    });
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert!(report.is_incomplete());
    let notices = report.incomplete_notices();
    assert!(notices[0].contains("2 failures, first Growth architect: "), "{notices:?}");
    assert!(notices[0].contains("the model is unavailable"), "{notices:?}");
    assert_eq!(
        notices[1],
        "2 of 3 moves are missing: m2, m3, from Growth architect, Operations engineer."
    );
    check_replay(&run, &report).await;

    let (model_override, _) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(report.json(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_scoring_is_repeated_without_paying_for_turns_again() {
    for (failing, is_done) in [(vec!["m2"], true), (vec!["m1", "m2"], false)] {
        let folder = tempfile::tempdir().unwrap();
        let (expected, all_calls) = uninterrupted(folder.path(), run_config(2, 2)).await;
        let run = Run::create(folder.path().join("run"), run_config(2, 2)).unwrap();
        let moves = failing.clone();
        let (model_override, answered) =
            failing_model(move |it| is_scoring(it) && moves.iter().any(|id| is_about(it, id)));
        let result = run
            .resume(ResumeOptions { model_override, concurrency: 2, ..resume_options() }, |_| {})
            .await;
        match result {
            Ok(RunOutcome::Complete { report, .. }) if is_done => {
                assert_eq!(unscored(&report), failing)
            }
            Err(problem) if !is_done => {
                assert!(problem.to_string().contains("no move was scored"), "{problem}");
            }
            result => panic!("{result:?}"),
        }
        let before = answered.count();

        let (model_override, answered) = failing_model(|_| false);
        let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
        assert_eq!(report.json(), expected);
        assert_eq!(before + answered.count(), all_calls);
        check_replay(&run, &report).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debate_without_critic_is_scored_and_continues_when_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, _) = uninterrupted(folder.path(), run_config(2, 3)).await;
    let expected: Report = serde_json::from_str(&expected).unwrap();
    let run = Run::create(folder.path().join("run"), run_config(2, 3)).unwrap();
    let critic = run.config().critic.system_prompt.clone();
    // The critic opens the debate, and its replies to all decision makers fail in the second round.
    let (model_override, _) = failing_model(move |it| {
        let is_critic = it.system.as_ref().is_some_and(|system| system.contains(critic.trim()));
        let is_opening = last_message(it).contains("initial counterpoints");
        is_critic && !is_opening && is_about(it, "m1")
    });
    let is_cut_short = |report: &Report, id: &str| {
        let score = report.outcome.scores.iter().find(|it| it.move_id.to_string() == id);
        score.is_some_and(|it| it.marks.contains(&Mark::Incomplete))
    };
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(unscored(&report), [""; 0]);
    assert!(report.is_incomplete());
    assert!(is_cut_short(&report, "m1") && !is_cut_short(&report, "m2"));
    check_replay(&run, &report).await;

    let (model_override, _) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!(without_spending(&report), without_spending(&expected));
    assert!(!is_cut_short(&report, "m1"));
    check_replay(&run, &report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_with_a_higher_limit_continues_debates_that_ended_early() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, all_calls) = uninterrupted(folder.path(), run_config(3, 4)).await;
    let whole: Report = serde_json::from_str(&expected).unwrap();
    let tokens: u64 =
        whole.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum();
    let run = Run::create(folder.path().join("run"), run_config(3, 4)).unwrap();
    let limited = |part: u64| Limit { tokens: Some(tokens * part / 10), money: None };
    let (model_override, answered) = failing_model(|_| false);
    let (report, _) =
        finish(&run, ResumeOptions { model_override, limit: limited(6), ..resume_options() }).await;
    // All debates share the budget, so every move is debated for fewer rounds.
    assert_eq!(unscored(&report), [""; 0]);
    let is_cut_short = |it: &&MoveScore| it.marks.contains(&Mark::Incomplete);
    let cut_short = report.outcome.scores.iter().filter(is_cut_short).count();
    assert!(cut_short >= 2, "{cut_short}");
    let before = answered.count();
    check_replay(&run, &report).await;

    // Without a higher limit, resuming the run makes no calls and changes nothing.
    let (model_override, answered) = failing_model(|_| false);
    let (again, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    assert_eq!((unscored(&again), answered.count()), (unscored(&report), 0));

    let (model_override, answered) = failing_model(|_| false);
    let (report, _) =
        finish(&run, ResumeOptions { model_override, limit: limited(30), ..resume_options() })
            .await;
    assert_eq!(without_spending(&report), without_spending(&whole));
    // A debate that the limit cut short is now debated to its last round and scored again. Only its earlier scoring
    // calls, one for each of three decision makers, were paid for and not used.
    let more = before + answered.count() - all_calls;
    assert!(more <= cut_short * 3, "{more} of {cut_short}");
    check_replay(&run, &report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_isolation_requirement_is_stored_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 1)).unwrap();
    let with_isolation = |isolation| ResumeOptions { isolation, ..resume_options() };
    let check_refused = |result: Result<RunOutcome, RunError>| {
        assert!(matches!(result, Err(RunError::Sandbox(_))), "{result:?}");
    };
    check_refused(run.resume(with_isolation(Some(Isolation::Process)), |_| {}).await);
    let reopened = Run::open(run.dir()).unwrap();
    assert_eq!(reopened.manifest().required_isolation, Some(Isolation::Process));
    check_refused(reopened.resume(with_isolation(None), |_| {}).await);
    finish(&reopened, with_isolation(Some(Isolation::Off))).await;

    let run = Run::open(run.dir()).unwrap();
    let at = "m1".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    assert_eq!(fork.unwrap().manifest().required_isolation, Some(Isolation::Off));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_cluster_cannot_be_replayed_or_forked() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 1)).unwrap();
    fs::write(run.dir().join("cluster"), "").unwrap();
    let replay = run.replay(folder.path().join("replay"), resume_options(), |_| {}).await;
    let at = "layer_1".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    for error in [replay.map(drop).unwrap_err(), fork.map(drop).unwrap_err()] {
        assert!(error.to_string().contains("a cluster executed it"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_isolation_of_the_debates_is_stored_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 1)).unwrap();
    finish(&run, ResumeOptions { isolation: None, ..resume_options() }).await;
    let path = run.dir().join("run.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"used_isolation\": \"off\""), "{text}");
    assert!(!text.contains("required_isolation") && !text.contains("\"preferred\""), "{text}");

    // The manifest of an earlier version contains only the requirement.
    let earlier = text.replace("\"used_isolation\": \"off\"", "\"isolation\": \"vm\"");
    fs::write(&path, earlier).unwrap();
    let manifest = Run::open(run.dir()).unwrap().manifest().clone();
    assert_eq!(manifest.required_isolation, Some(Isolation::Vm));
    assert_eq!(manifest.used_isolation, None);
}

/// Returns every file below a directory, with its content and modification time.
fn files(folder: &Path) -> Vec<(String, Vec<u8>, SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            let (name, changed) = (entry.path(), entry.metadata().unwrap().modified().unwrap());
            all.push((name.display().to_string(), fs::read(&name).unwrap(), changed));
        }
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_and_forks_do_not_modify_the_original_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), run_config(1, 2)).unwrap();
    let (report, _) = finish(&run, resume_options()).await;
    // Simulates a read-only file system.
    let paths = [run.dir().join("state.db"), run.dir().join("lock"), run.dir().into()];
    let set_readonly = |is_readonly: bool| {
        for path in &paths {
            let mut permissions = fs::metadata(path).unwrap().permissions();
            permissions.set_readonly(is_readonly);
            fs::set_permissions(path, permissions).unwrap();
        }
    };
    set_readonly(true);
    let before = files(run.dir());
    check_replay(&run, &report).await;
    let at = "m1:r2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    finish(&fork.unwrap(), resume_options()).await;
    let after = files(run.dir());
    set_readonly(false);
    let names =
        |it: &[(String, Vec<u8>, SystemTime)]| it.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    assert!(before == after);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_configuration_are_reported_by_setting() {
    let folder = tempfile::tempdir().unwrap();
    Run::create(folder.path(), run_config(1, 1)).unwrap();
    let path = folder.path().join("config.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("# A comment.\n{text}")).unwrap();
    assert!(Run::open(folder.path()).is_ok());

    fs::write(&path, text.replace("rounds = 1\n", "rounds = 7\n")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("rounds: 1 → 7; restore it"), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");

    fs::write(&path, "rounds = = 7").unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no longer valid TOML"), "{error}");
    fs::write(&path, &text).unwrap();

    let path = folder.path().join("run.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"NVDA\"", "\"AAPL\"")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("`ticker` was changed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_lists_models_and_prompt_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = run_config(1, 1);
    config.choice.provider = "groq".to_owned();
    config.choice.model = Some("openai/gpt-oss-20b".to_owned());
    let run = Run::create(folder.path(), config).unwrap();
    let (model_override, _) = failing_model(|_| false);
    let (report, _) = finish(&run, ResumeOptions { model_override, ..resume_options() }).await;
    let text = report.markdown();
    for (role, name) in [
        ("critic", "Critic"),
        ("D1", "Growth Strategist"),
        ("D1 scoring", "Growth Strategist, scoring"),
        ("analyst_1", "Capital steward"),
    ] {
        let line = format!("| model of {name} | groq/openai/gpt-oss-20b, temperature ");
        assert!(text.contains(&line), "{role}: {text}");
        let model = &run.manifest().models[role];
        assert!(model.max_tokens > 0 && model.temperature >= 0.0, "{model:?}");
    }
    assert_eq!(run.manifest().tasks.len(), 17);
    assert!(text.contains("| task critic reply | "));

    let path = folder.path().join("run.json");
    let task = &run.manifest().tasks["critic reply"];
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(task.as_str(), "0")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("uses other prompts"), "{error}");
}

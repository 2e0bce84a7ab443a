//! Whole runs, with the scripted model and sandboxes in this process.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use consulting_graph::{
    config::DEFAULT,
    data::{DataSource, From},
    event::{EventLog, Numbered, PipelineEvent, RoundStatus},
    models::{Choice, Limit},
    offline,
    pipeline::Reviewed,
    report::Report,
    run::{Ended, Given, Going, Place, Run, RunProblem},
};
use graph_trace::{Detail, Shape, Trace};
use llm::{Llm, Script, Scripted};
use sandbox_vm::Isolation;

/// A run of so many analysts with one move each, and so many rounds.
pub(crate) fn given(analysts: usize, rounds: u32) -> Given {
    let mut config: toml::Table = toml::from_str(DEFAULT).unwrap();
    config["rounds"] = i64::from(rounds).into();
    config["moves_per_analyst"] = 1.into();
    config["analysts"].as_array_mut().unwrap().truncate(analysts);
    whole(toml::to_string(&config).unwrap())
}

fn whole(config: String) -> Given {
    Given {
        run_id: "test".to_owned(),
        ticker: "NVDA".to_owned(),
        data: DataSource {
            from: From::Synthetic,
            as_of: chrono::NaiveDate::from_ymd_opt(2026, 3, 1).unwrap(),
        },
        choice: Choice { seed: 7, ..Choice::of("scripted") },
        baseline: false,
        review: false,
        nonce: "7f3a".to_owned(),
        config,
    }
}

pub(crate) fn going() -> Going {
    Going {
        isolation: Some(Isolation::Off),
        backend: Some("in-process".to_owned()),
        ..Going::default()
    }
}

pub(crate) async fn finish(run: &Run, going: Going) -> (Report, Vec<(String, Trace)>) {
    match run.go(going, |_| {}).await.unwrap() {
        Ended::Done { report, traces, .. } => (*report, traces),
        Ended::Review(_) => panic!("nobody asked for a review"),
    }
}

/// How many calls the recording of a run holds.
pub(crate) fn paid(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap();
    text.lines().count() - 1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_what_the_documents_say() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), whole(DEFAULT.to_owned())).unwrap();
    let seen = AtomicU32::new(0);
    let going = Going { concurrency: 4, traced: true, ..going() };
    let count = |_: &Numbered| {
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let ended = run.go(going, count).await.unwrap();
    let Ended::Done { report, traces, .. } = ended else { panic!("{ended:?}") };

    // 924, and what had to be asked twice.
    let calls: u64 = report.outcome.spending.iter().map(|it| it.calls).sum();
    let recording = std::fs::read_to_string(folder.path().join("calls.jsonl")).unwrap();
    let asked_again = ["Your scores could not be read.", "This cannot be used yet:"];
    let is_again = |line: &&str| asked_again.iter().any(|it| line.contains(it));
    assert_eq!(calls, 924 + recording.lines().filter(is_again).count() as u64);
    assert_eq!(paid(folder.path()) as u64, calls);
    assert_eq!(report.outcome.moves.len(), 15);
    assert_eq!((report.ranking.recommended.len(), report.ranking.other.len()), (3, 12));
    for logs in report.outcome.logs.values() {
        assert_eq!(logs.keys().collect::<Vec<_>>(), ["i1", "i2", "i3"]);
        assert!(logs.values().all(|it| it.len() == 20));
    }
    let debates: Vec<_> = traces.iter().filter(|it| it.0 != "pipeline").collect();
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
}

/// The scripted model without its slips.
fn flawless() -> Option<Llm> {
    let mut script: toml::Table = toml::from_str(offline::SCRIPT).unwrap();
    let rules = script["rules"].as_array_mut().unwrap();
    rules.retain(|it| it.get("when").is_none_or(|it| it.get("chance").is_none()));
    let script: Script = script.try_into().unwrap();
    Some(Llm::new(Scripted::new(script.seed(7)).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_asked_twice_there_are_924_calls() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), whole(DEFAULT.to_owned())).unwrap();
    let going = Going { concurrency: 15, speaker: flawless(), ..going() };
    let (report, _) = finish(&run, going).await;
    assert_eq!(paid(folder.path()), 924);
    assert!(report.outcome.spending_by_move.iter().all(|it| it.calls == 61));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_changes_nothing() {
    let mut all = Vec::new();
    for concurrency in [1, 4, 15] {
        let folder = tempfile::tempdir().unwrap();
        let mut given = given(5, 2);
        given.config = given.config.replace("moves_per_analyst = 1", "moves_per_analyst = 3");
        let run = Run::create(folder.path(), given).unwrap();
        let (report, traces) = finish(&run, Going { concurrency, traced: true, ..going() }).await;
        assert_eq!(report.outcome.moves.len(), 15);
        let traces: Vec<_> = traces
            .iter()
            .map(|(name, it)| (name.clone(), it.text(Shape::new(Detail::Full))))
            .collect();
        all.push((report.markdown(), report.html(), report.json(), traces));
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_small_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), given(1, 3)).unwrap();
    let (_, traces) = finish(&run, Going { traced: true, ..going() }).await;
    for (name, trace) in &traces {
        let text = trace.text(Shape::new(Detail::Routes));
        // The first line is the input: the whole move, and everybody's prompts.
        let (_, steps) = text.split_once('\n').unwrap();
        insta::assert_snapshot!(format!("trace_{name}"), steps);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_the_same_to_the_last_byte() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(2, 2)).unwrap();
    let (report, _) = finish(&run, going()).await;
    let replayed = run.replay(folder.path().join("again"), going(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());
    assert!(replayed.files.len() > 20, "{:?}", replayed.files);

    // What was said decides: another word in the recording, and it is noticed.
    let calls = folder.path().join("run/calls.jsonl");
    let text = std::fs::read_to_string(&calls).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let opening =
        lines.iter_mut().find(|it| it.contains("Give your initial counterpoints")).unwrap();
    let mut call: serde_json::Value = serde_json::from_str(opening).unwrap();
    let said = call.pointer_mut("/outcome/response/content/0/text").unwrap();
    *said = format!("{} And more.", said.as_str().unwrap()).into();
    *opening = call.to_string();
    std::fs::write(&calls, lines.join("\n") + "\n").unwrap();
    let bent = run.replay(folder.path().join("bent"), going(), |_| {}).await;
    assert!(bent.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_does_only_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(3, 4)).unwrap();
    let (before, _) = finish(&run, going()).await;
    let calls = paid(run.folder());
    let at: Place = "m2:r3".parse().unwrap();
    let set = ["critic.persona=You were a nurse.".to_owned()];
    let fork = folder.path().join("fork");
    let fork = run.fork(&fork, "fork".to_owned(), at, true, &set).await.unwrap();
    let (after, _) = finish(&fork, going()).await;
    // Rounds 3 and 4: three replies and three answers each, then three scores and perhaps repairs.
    let made = paid(fork.folder()) - calls;
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
    let replayed = fork.replay(folder.path().join("again"), going(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), after.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_names_the_round_at_which_a_fork_came_apart() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(4, 6)).unwrap();
    finish(&run, going()).await;
    let set = ["critic.persona=You were a nurse.".to_owned()];
    let at = "m4:r5".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &set).await;
    let fork = fork.unwrap();
    finish(&fork, going()).await;
    let found = consulting_graph::diff::diff(&run, &fork).unwrap();
    let place = found.first.unwrap().place;
    assert!(place.starts_with("m4:r5 critic"), "{place}");
    assert_eq!(found.cost.a.own_calls, None);
    assert!(found.cost.b.own_calls.is_some_and(|it| it < found.cost.b.calls));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_ends_rounds_and_leaves_scores() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Run::create(folder.path().join("whole"), given(1, 6)).unwrap();
    let (report, _) = finish(&whole, going()).await;
    let tokens: u64 =
        report.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum();
    let run = Run::create(folder.path().join("run"), given(1, 6)).unwrap();
    let limit = Limit { tokens: Some(tokens / 2), money: None };
    let (report, _) = finish(&run, Going { limit, ..going() }).await;
    let spent: u64 =
        report.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum();
    assert!(spent <= tokens / 2, "{spent} of {}", tokens / 2);
    let marks = format!("{:?}", report.outcome.scores[0].marks);
    assert!(marks.contains("Incomplete"), "{marks}");
    let events = EventLog::read(&run.folder().join("events.jsonl")).unwrap();
    assert!(events.iter().any(|it| matches!(it.event, PipelineEvent::BudgetExceeded { .. })));
}

/// What a run spent, in tokens.
fn tokens(report: &Report) -> u64 {
    report.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_run_is_not_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(1, 2)).unwrap();
    let (_, _) = finish(&run, going()).await;
    let calls = run.folder().join("calls.jsonl");
    let whole = std::fs::read_to_string(&calls).unwrap();
    let half: Vec<&str> = whole.lines().take(whole.lines().count() - 2).collect();
    std::fs::write(&calls, half.join("\n") + "\n").unwrap();
    let replayed = run.replay(folder.path().join("half"), going(), |_| {}).await;
    assert!(matches!(replayed, Err(RunProblem::NotRecorded(_))), "{replayed:?}");

    std::fs::write(&calls, whole).unwrap();
    std::fs::write(run.folder().join("m9.md"), "of another run").unwrap();
    let replayed = run.replay(folder.path().join("more"), going(), |_| {}).await;
    assert!(matches!(&replayed, Err(RunProblem::Diverged(it)) if it == &["m9.md"]), "{replayed:?}");

    std::fs::remove_file(run.folder().join("report.json")).unwrap();
    let replayed = run.replay(folder.path().join("no"), going(), |_| {}).await;
    assert!(matches!(replayed, Err(RunProblem::NoPlace(_))), "{replayed:?}");
    assert!(!folder.path().join("no").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_is_replayed_and_asked_for_anew_where_the_moves_are_new() {
    let folder = tempfile::tempdir().unwrap();
    let given = Given { review: true, ..given(2, 2) };
    let run = Run::create(folder.path().join("run"), given).unwrap();
    let ended = run.go(going(), |_| {}).await.unwrap();
    let Ended::Review(review) = ended else { panic!("{ended:?}") };
    let mut moves = review.moves;
    moves.truncate(1);
    moves[0].draft.title = "Do nothing".to_owned();
    let reviewed = || Some(Reviewed { moves: moves.clone() });
    let (report, _) = finish(&run, Going { reviewed: reviewed(), ..going() }).await;
    assert_eq!(report.outcome.moves[0].draft.title, "Do nothing");
    let replayed = run.replay(folder.path().join("again"), going(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());

    // Nobody asked this time, so nothing is kept of it.
    let kept = std::fs::read(run.folder().join("reviewed.json")).unwrap();
    moves[0].draft.title = "Do much".to_owned();
    let reviewed = || Some(Reviewed { moves: moves.clone() });
    let refused = run.go(Going { reviewed: reviewed(), ..going() }, |_| {}).await;
    assert!(matches!(refused, Err(RunProblem::NothingToReview)), "{refused:?}");
    assert_eq!(std::fs::read(run.folder().join("reviewed.json")).unwrap(), kept);

    let fork = async |name: &str, at: &str| {
        let at = at.parse().unwrap();
        run.fork(folder.path().join(name), name.to_owned(), at, false, &[]).await.unwrap()
    };
    let (report, _) = finish(&fork("later", "m1:r2").await, going()).await;
    assert_eq!(report.outcome.moves[0].draft.title, "Do nothing");
    let earlier = fork("earlier", "layer_2").await;
    let ended = earlier.go(going(), |_| {}).await.unwrap();
    assert!(matches!(ended, Ended::Review(it) if it.moves.len() == 2));
    let (report, _) = finish(&earlier, Going { reviewed: reviewed(), ..going() }).await;
    let replayed = earlier.replay(folder.path().join("earlier again"), going(), |_| {}).await;
    assert_eq!(replayed.unwrap().report.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_kept_counted_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Run::create(folder.path().join("whole"), given(1, 6)).unwrap();
    let all = tokens(&finish(&whole, going()).await.0);
    let run = Run::create(folder.path().join("run"), given(1, 6)).unwrap();
    let limit = Limit { tokens: Some(all / 2), money: None };
    let (report, _) = finish(&run, Going { limit, ..going() }).await;
    assert!(tokens(&report) <= all / 2);
    let replayed = run.replay(folder.path().join("again"), going(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());

    // A fork has the limit too, for what it does itself: the rest of the debate fits.
    let run = Run::open(run.folder()).unwrap();
    assert_eq!(run.manifest().limit, limit);
    let at = "m1:r2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, true, &[]).await;
    let fork = fork.unwrap();
    assert_eq!(fork.manifest().limit, limit);
    let (longer, _) = finish(&fork, going()).await;
    assert!(tokens(&longer) > tokens(&report), "{} {}", tokens(&longer), tokens(&report));

    // What was spent before counts, and the recording is asked first: nothing is new, so nothing is refused.
    std::fs::remove_file(run.folder().join("state.db")).unwrap();
    let (again, _) = finish(&run, going()).await;
    assert_eq!(again.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_fork_has_only_what_its_parent_had() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(1, 4)).unwrap();
    finish(&run, going()).await;
    let fork = async |run: &Run, name: &str, at: &str, set: &str| {
        let (folder, set) = (folder.path().join(name), [set.to_owned()]);
        run.fork(folder, name.to_owned(), at.parse().unwrap(), false, &set).await
    };
    let short = fork(&run, "short", "m1:r2", "rounds=2").await.unwrap();
    finish(&short, going()).await;
    let wrong = fork(&short, "wrong", "m1:r4", "rounds=6").await;
    assert!(matches!(wrong, Err(RunProblem::NoPlace(_))), "{wrong:?}");
    assert!(!folder.path().join("wrong").exists());
    assert!(fork(&short, "right", "m1:r2", "rounds=6").await.is_ok());

    for set in ["models.analysts.temperature=0.1", "rounds=2", "D1.id=D9", "impact.id=oomph"] {
        let refused = fork(&run, "refused", "m1:r4", set).await;
        assert!(matches!(refused, Err(RunProblem::Setting { .. })), "{set}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debate_that_is_kept_has_all_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(2, 2)).unwrap();
    finish(&run, going()).await;
    let at = "m2:r2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, true, &[]).await;
    let fork = fork.unwrap();
    finish(&fork, going()).await;
    for name in ["i1.md", "i3.json", "scores.json"] {
        let read = |run: &Run| std::fs::read(run.folder().join("logs/m1").join(name)).unwrap();
        assert_eq!(read(&run), read(&fork), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_was_given_stays() {
    let folder = tempfile::tempdir().unwrap();
    Run::create(folder.path(), given(1, 1)).unwrap();
    let path = folder.path().join("run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"NVDA\"", "\"AAPL\"")).unwrap();
    let opened = Run::open(folder.path());
    assert!(matches!(opened, Err(RunProblem::Differs(_))), "{opened:?}");

    let version = format!("\"graph-core\": \"{}\"", graph_core::VERSION);
    std::fs::write(&path, text.replace(&version, "\"graph-core\": \"0.0.1\"")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("made with graph-core 0.0.1, this program has"), "{error}");
    assert!(Run::look(folder.path()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path(), given(1, 1)).unwrap();
    let lock = std::fs::File::create(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let refused = run.go(going(), |_| {}).await;
    assert!(matches!(refused, Err(RunProblem::Busy(_))), "{refused:?}");
    assert!(!folder.path().join("events.jsonl").exists());
    let at = "layer_0".parse().unwrap();
    let refused = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    assert!(matches!(refused, Err(RunProblem::Busy(_))), "{refused:?}");
    lock.unlock().unwrap();
    finish(&run, going()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_source_has_no_news_nobody_is_asked_to_find_any() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let table = "item,FY2023,FY2024,FY2025\nRevenue,410000000,450000000,520000000\n\
                 Net income,41000000,39000000,60000000\nCash,90000000,80000000,120000000\n";
    std::fs::write(data.join("statements.csv"), table).unwrap();
    let mut given = given(1, 1);
    given.data.from = From::Dir { folder: data };
    let run = Run::create(folder.path().join("run"), given).unwrap();
    let (report, _) = finish(&run, going()).await;
    let numbers: Vec<usize> = report.outcome.findings.iter().map(|it| it.findings.len()).collect();
    assert!(numbers[0] > 0 && numbers[1] == 0, "{numbers:?}");
    let warnings = report.outcome.warnings.join("\n");
    assert!(warnings.contains("F2: the source has nothing"), "{warnings}");
    assert!(!warnings.contains("no finding of F2"), "{warnings}");
    let recording = std::fs::read_to_string(run.folder().join("calls.jsonl")).unwrap();
    assert!(!recording.contains("one of sentiment"));
    assert!(recording.contains("from F1, since the source has nothing for F2"));
}

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
    report::Report,
    run::{Ended, Given, Going, Place, Run},
};
use graph_trace::{Detail, Shape, Trace};
use sandbox_vm::Isolation;

/// A run of so many analysts with one move each, and so many rounds.
fn given(analysts: usize, rounds: u32) -> Given {
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
        choice: Choice { provider: "scripted".to_owned(), model: None, seed: 7 },
        baseline: false,
        review: false,
        nonce: "7f3a".to_owned(),
        config,
    }
}

fn going() -> Going {
    Going { isolation: Isolation::Off, backend: Some("in-process".to_owned()), ..Going::default() }
}

async fn finish(run: &Run, going: Going) -> (Report, Vec<(String, Trace)>) {
    match run.go(going, |_| {}).await.unwrap() {
        Ended::Done { report, traces } => (*report, traces),
        Ended::Review(_) => panic!("nobody asked for a review"),
    }
}

/// How many calls the recording of a run holds.
fn paid(folder: &Path) -> usize {
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
    let Ended::Done { report, traces } = ended else { panic!("{ended:?}") };

    // 924, and what had to be asked twice.
    let calls: u64 = report.outcome.spending.iter().map(|it| it.calls).sum();
    let repaired = calls - 924;
    assert!(repaired < 30, "{calls}");
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
    assert!(rounds.values().all(|it| *it == 150), "{rounds:?}");
    for name in ["report.md", "report.html", "report.json", "F1.md", "F2.md", "m1.md", "m15.md"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let log = std::fs::read_to_string(folder.path().join("logs/m7/i2.md")).unwrap();
    assert!(log.starts_with("**[Round 1] CRITIC:**\n"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_changes_nothing() {
    let mut all = Vec::new();
    for concurrency in [1, 4, 15] {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(folder.path(), given(5, 3)).unwrap();
        let (report, traces) = finish(&run, Going { concurrency, traced: true, ..going() }).await;
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

//! Runs that are gone on with: after an outage, with more to spend, as strict as before.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use consulting_graph::{
    models::Limit,
    report::Report,
    run::{Ended, Given, Going, Run, RunProblem},
};
use llm::{Llm, Request};
use sandbox_vm::Isolation;

use crate::{
    run::{finish, given, going},
    speakers::{Manners, last_message, speaker},
};

/// The scripted model, which answers none of these calls, and counts those that it is asked.
fn out_for(is_out: impl Fn(&Request) -> bool + Send + Sync + 'static) -> (Option<Llm>, Asked) {
    let asked = Asked::default();
    let count = asked.clone();
    let speaker = speaker(move |_, request| {
        if is_out(request) {
            return Manners::Fails("nobody is there".to_owned());
        }
        count.0.fetch_add(1, Ordering::Relaxed);
        Manners::Late(Duration::ZERO)
    });
    (speaker, asked)
}

/// How many calls were answered.
#[derive(Clone, Default)]
struct Asked(Arc<AtomicUsize>);

impl Asked {
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

/// What a run comes to that nothing interrupts, and how many calls it makes.
async fn uninterrupted(folder: &Path, given: Given) -> (String, usize) {
    let run = Run::create(folder.join("uninterrupted"), given).unwrap();
    let (speaker, asked) = out_for(|_| false);
    let (report, _) = finish(&run, Going { speaker, ..going() }).await;
    assert_eq!(unscored(&report), [""; 0]);
    (report.json(), asked.count())
}

async fn replays(run: &Run, folder: &Path, report: &Report) {
    let replayed = run.replay(folder, going(), |_| {}).await.unwrap();
    assert_eq!(replayed.report.json(), report.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_that_nobody_debated_are_debated_when_a_finished_run_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, all_calls) = uninterrupted(folder.path(), given(3, 2)).await;
    let run = Run::create(folder.path().join("run"), given(3, 2)).unwrap();
    let (speaker, asked) = out_for(|it| is_about(it, "m2") || is_about(it, "m3"));
    let (report, _) = finish(&run, Going { speaker, ..going() }).await;
    assert_eq!(unscored(&report), ["m2", "m3"]);
    let before = asked.count();
    replays(&run, &folder.path().join("replay of the part"), &report).await;

    let (speaker, asked) = out_for(|_| false);
    let (report, _) = finish(&run, Going { speaker, ..going() }).await;
    assert_eq!(report.json(), expected);
    assert_eq!(before + asked.count(), all_calls);
    replays(&run, &folder.path().join("replay of the whole"), &report).await;

    let (speaker, asked) = out_for(|_| false);
    let ended = run.go(Going { speaker, ..going() }, |_| {}).await.unwrap();
    assert!(matches!(ended, Ended::Done { was_done: true, .. }), "{ended:?}");
    assert_eq!(asked.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debate_whose_scoring_failed_is_scored_later_and_pays_for_no_turn_twice() {
    for (failing, is_done) in [(vec!["m2"], true), (vec!["m1", "m2"], false)] {
        let folder = tempfile::tempdir().unwrap();
        let (expected, all_calls) = uninterrupted(folder.path(), given(2, 2)).await;
        let run = Run::create(folder.path().join("run"), given(2, 2)).unwrap();
        let moves = failing.clone();
        let (speaker, asked) =
            out_for(move |it| is_scoring(it) && moves.iter().any(|id| is_about(it, id)));
        let ended = run.go(Going { speaker, concurrency: 2, ..going() }, |_| {}).await;
        match ended {
            Ok(Ended::Done { report, .. }) if is_done => assert_eq!(unscored(&report), failing),
            Err(problem) if !is_done => {
                assert!(problem.to_string().contains("no move has a score"), "{problem}");
            }
            ended => panic!("{ended:?}"),
        }
        let before = asked.count();

        let (speaker, asked) = out_for(|_| false);
        let (report, _) = finish(&run, Going { speaker, ..going() }).await;
        assert_eq!(report.json(), expected);
        assert_eq!(before + asked.count(), all_calls);
        replays(&run, &folder.path().join("replay"), &report).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_limit_lets_a_finished_run_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, all_calls) = uninterrupted(folder.path(), given(4, 6)).await;
    let whole: Report = serde_json::from_str(&expected).unwrap();
    let tokens: u64 =
        whole.outcome.spending.iter().map(|it| it.input_tokens + it.output_tokens).sum();
    let run = Run::create(folder.path().join("run"), given(4, 6)).unwrap();
    let limited = |part: u64| Limit { tokens: Some(tokens * part / 10), money: None };
    let (speaker, asked) = out_for(|_| false);
    let (report, _) = finish(&run, Going { speaker, limit: limited(6), ..going() }).await;
    assert!(!unscored(&report).is_empty() && !report.outcome.scores.is_empty());
    let cut_short = report.outcome.scores.iter().filter(|it| !it.marks.is_empty()).count();
    let before = asked.count();
    replays(&run, &folder.path().join("replay of the part"), &report).await;

    // Without more to spend there is nothing to be had.
    let (speaker, asked) = out_for(|_| false);
    let (again, _) = finish(&run, Going { speaker, ..going() }).await;
    assert_eq!((unscored(&again), asked.count()), (unscored(&report), 0));

    let (speaker, asked) = out_for(|_| false);
    let (report, _) = finish(&run, Going { speaker, limit: limited(30), ..going() }).await;
    assert_eq!(report.json(), expected);
    // A debate that goes on is scored at its new end; what it was scored with before is all that is paid for in vain.
    let more = before + asked.count() - all_calls;
    assert!(more <= cut_short * 3, "{more} of {cut_short}");
    replays(&run, &folder.path().join("replay of the whole"), &report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_keeps_to_the_isolation_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(1, 1)).unwrap();
    let told = |isolation| Going { isolation, ..going() };
    let refused = |ended: Result<Ended, RunProblem>| {
        assert!(matches!(ended, Err(RunProblem::Sandboxes(_))), "{ended:?}");
    };
    refused(run.go(told(Some(Isolation::Required)), |_| {}).await);
    let kept = Run::open(run.folder()).unwrap();
    assert_eq!(kept.manifest().isolation, Some(Isolation::Required));
    refused(kept.go(told(None), |_| {}).await);
    finish(&kept, told(Some(Isolation::Off))).await;

    let run = Run::open(run.folder()).unwrap();
    let at = "m1".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    assert_eq!(fork.unwrap().manifest().isolation, Some(Isolation::Off));
}

/// Every file below a folder, with what is in it and when it was changed.
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
async fn a_replay_and_a_fork_write_nothing_to_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::create(folder.path().join("run"), given(1, 2)).unwrap();
    let (report, _) = finish(&run, going()).await;
    // As on a medium that can only be read.
    let paths = [run.folder().join("state.db"), run.folder().join("lock"), run.folder().into()];
    let set = |is_readonly: bool| {
        for path in &paths {
            let mut permissions = fs::metadata(path).unwrap().permissions();
            permissions.set_readonly(is_readonly);
            fs::set_permissions(path, permissions).unwrap();
        }
    };
    set(true);
    let before = files(run.folder());
    replays(&run, &folder.path().join("replay"), &report).await;
    let at = "m1:r2".parse().unwrap();
    let fork = run.fork(folder.path().join("fork"), "fork".to_owned(), at, false, &[]).await;
    finish(&fork.unwrap(), going()).await;
    let after = files(run.folder());
    set(false);
    let names =
        |it: &[(String, Vec<u8>, SystemTime)]| it.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    assert!(before == after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_is_named_setting_by_setting() {
    let folder = tempfile::tempdir().unwrap();
    Run::create(folder.path(), given(1, 1)).unwrap();
    let path = folder.path().join("config.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("# Of no account.\n{text}")).unwrap();
    assert!(Run::open(folder.path()).is_ok());

    fs::write(&path, text.replace("rounds = 1\n", "rounds = 7\n")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("rounds: 1 → 7; put it back"), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");

    fs::write(&path, "rounds = = 7").unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("cannot be read any more"), "{error}");
    fs::write(&path, &text).unwrap();

    let path = folder.path().join("run.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"NVDA\"", "\"AAPL\"")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("`ticker` was changed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_who_spoke_and_in_which_words_it_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut given = given(1, 1);
    given.choice.provider = "groq".to_owned();
    given.choice.model = Some("openai/gpt-oss-20b".to_owned());
    let run = Run::create(folder.path(), given).unwrap();
    let (speaker, _) = out_for(|_| false);
    let (report, _) = finish(&run, Going { speaker, ..going() }).await;
    let text = report.markdown();
    for role in ["critic", "D1", "D1 scoring", "analyst_1"] {
        let line = format!("| model of {role} | groq/openai/gpt-oss-20b, temperature ");
        assert!(text.contains(&line), "{role}");
        let speaks = &run.manifest().models[role];
        assert!(speaks.max_tokens > 0 && speaks.temperature >= 0.0, "{speaks:?}");
    }
    assert_eq!(run.manifest().tasks.len(), 14);
    assert!(text.contains("| task critic reply | "));

    let path = folder.path().join("run.json");
    let task = &run.manifest().tasks["critic reply"];
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(task.as_str(), "0")).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("asks with other words"), "{error}");
}

/// The program in a folder, started by a shell.
fn shell(folder: &Path, line: &str) -> (Option<i32>, String) {
    let consulting = env!("CARGO_BIN_EXE_consulting");
    let line = line.replace("consulting", consulting);
    let ended = Command::new("sh").current_dir(folder).args(["-c", &line]).output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8_lossy(&said).into_owned())
}

const SMALL: &str =
    "consulting run NVDA --config small.toml --provider scripted --sandbox in-process --out made";
#[test]
fn the_program_says_how_moves_get_a_score_and_ends_with_a_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), given(3, 4).config).unwrap();
    let (code, said) = shell(folder.path(), &format!("{SMALL} --max-tokens 120000"));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("have no score. To debate them, go on with: consulting resume made\n"));
    assert!(said.contains("--max-tokens N"), "{said}");
    for name in ["report.md", "report.html"] {
        let report = fs::read_to_string(folder.path().join("made").join(name)).unwrap();
        let (top, _) = report.split_once("Recommended").unwrap();
        assert!(top.contains("2 of 3 moves have no score and so no rank: m2, m3."), "{top}");
    }
    let (code, said) = shell(folder.path(), "consulting resume made --max-tokens 9000000");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("3 scored, in"), "{said}");
    let (code, said) = shell(folder.path(), "consulting resume made");
    assert!(code == Some(0) && said.contains("nothing left to do"), "{said}");
    let (code, said) = shell(folder.path(), "consulting replay made --quiet");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_disk_that_is_full_ends_the_run_and_leaves_no_move_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), given(3, 4).config).unwrap();
    // No file may grow beyond this, which one that keeps the run does in the debates.
    let full = "trap '' XFSZ; ulimit -f 4000;";
    let (code, said) = shell(folder.path(), &format!("{full} {SMALL}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("calls.jsonl") || said.contains("state.db"), "{said}");
    assert!(!said.contains("storage failed: the checkpoint storage failed"), "{said}");
    let events = fs::read_to_string(folder.path().join("made/events.jsonl")).unwrap();
    assert!(events.contains("sandbox_ready") && !events.contains("sandbox_skipped"), "{events}");
    let (code, said) = shell(folder.path(), "consulting resume made --quiet");
    assert!(code == Some(0) && said.contains("3 scored, in"), "{said}");
    let (code, said) = shell(folder.path(), "consulting replay made --quiet");
    assert_eq!(code, Some(0), "{said}");
}

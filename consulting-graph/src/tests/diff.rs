//! Comparison of runs.

use std::{collections::BTreeMap, fs};

use tempfile::TempDir;

use super::{rank::scored, report, run::run_config, sample};
use crate::{
    config::DEFAULT,
    diff::{DiffError, RunDiff, diff},
    moves::{Move, MoveId},
    report::{Outcome, Report},
    run::{Run, RunConfig},
    transcript::{ConversationEntry, Speaker, append_to_log},
};

/// A complete run in a temporary directory.
struct CompleteRun {
    _folder: TempDir,
    run: Run,
}

fn complete_run(run_id: &str, config: &str, change: impl FnOnce(&mut Outcome)) -> CompleteRun {
    let folder = tempfile::tempdir().unwrap();
    let run_config = RunConfig {
        run_id: run_id.to_owned(),
        nonce: format!("nonce of {run_id}"),
        config_toml: config.to_owned(),
        ..run_config(1, 1)
    };
    let run = Run::create(folder.path(), run_config).unwrap();
    let mut outcome = outcome(run_id);
    change(&mut outcome);
    fs::write(folder.path().join("report.json"), Report::new(outcome).json()).unwrap();
    for name in ["financial.md", "news.md"] {
        fs::write(folder.path().join(name), "The year was good.").unwrap();
    }
    CompleteRun { _folder: folder, run }
}

/// Returns an outcome with three moves. The first one was debated in two conversations.
fn outcome(run_id: &str) -> Outcome {
    let outcome = report::outcome();
    let a_move = |id: u16| Move { move_id: MoveId(id), ..sample::the_move() };
    let logs = ["i1", "i2"].map(|name| (name.to_owned(), log(name)));
    Outcome {
        run_id: run_id.to_owned(),
        documents: vec!["Revenue rose.".to_owned(), "Nobody knows.".to_owned()],
        moves: vec![a_move(1), a_move(2), a_move(3)],
        missing: Vec::new(),
        scores: vec![
            scored(1, [(8, 0), (8, 1), (9, 0)]),
            scored(2, [(6, 0), (7, 0), (7, 0)]),
            scored(3, [(5, 0), (5, 0), (5, 0)]),
        ],
        baselines: Vec::new(),
        unscored: Vec::new(),
        logs: BTreeMap::from([(MoveId(1), logs.into())]),
        spending: outcome.spending[..1].to_vec(),
        ..outcome
    }
}

/// Returns a transcript of two rounds between the critic and one decision maker.
fn log(name: &str) -> Vec<ConversationEntry> {
    let maker = name.replace('i', "D");
    (1..=2).fold(Vec::new(), |log, round| {
        let log = append_to_log(&log, Speaker::Critic, &format!("Why, {round}?"), round);
        append_to_log(
            &log,
            Speaker::DecisionMaker(maker.clone()),
            &format!("Since {round}."),
            round,
        )
    })
}

fn default_run() -> CompleteRun {
    complete_run("run-a", DEFAULT, |_| {})
}

/// Returns the differences between two runs that are equal, except that `change` was applied to the outcome of the
/// second one.
fn changed(change: impl FnOnce(&mut Outcome)) -> RunDiff {
    diff(&default_run().run, &complete_run("run-b", DEFAULT, change).run).unwrap()
}

#[track_caller]
fn check_first(change: impl FnOnce(&mut Outcome), place: &str, a: &str, b: &str) {
    let first = changed(change).first.unwrap();
    assert_eq!((&*first.place, &*first.texts.a, &*first.texts.b), (place, a, b));
}

fn turn<'a>(outcome: &'a mut Outcome, log: &str, n: usize) -> &'a mut String {
    &mut outcome.logs.get_mut(&MoveId(1)).unwrap().get_mut(log).unwrap()[n].content
}

#[test]
fn runs_that_differ_only_in_id_are_the_same() {
    let same = changed(|_| {});
    assert!(same.is_same(), "{}", same.text());
    assert!(same.text().contains("same results"));
}

#[test]
fn the_first_divergence_follows_the_order_of_the_pipeline() {
    let edit = |it: &mut Outcome| {
        it.findings[0].findings[0].draft.claim = "Revenue fell.".to_owned();
        it.documents[1].push('!');
    };
    check_first(edit, "the data on news and sentiment", "Nobody knows.", "Nobody knows.!");
    check_first(|it| it.documents[0].clear(), "the financial data", "Revenue rose.", "");
    let (a, b) = (default_run(), default_run());
    fs::write(b.run.dir().join("news.md"), "The year was bad.").unwrap();
    let first = diff(&a.run, &b.run).unwrap().first.unwrap();
    assert_eq!((&*first.place, &*first.texts.b), ("news.md", "The year was bad."));
}

#[test]
fn the_first_divergence_follows_the_order_of_the_debate() {
    let critic = "m1:r2 critic → D2";
    check_first(|it| *turn(it, "i2", 2) = "Why not?".to_owned(), critic, "Why, 2?", "Why not?");
    // The critic's turn is the first difference, because the critic speaks to all decision makers before any of them
    // answers.
    check_first(
        |it| {
            *turn(it, "i1", 3) = "No.".to_owned();
            *turn(it, "i2", 2) = "Why not?".to_owned();
        },
        critic,
        "Why, 2?",
        "Why not?",
    );
    check_first(|it| *turn(it, "i1", 3) = "No.".to_owned(), "m1:r2 D1", "Since 2.", "No.");
    check_first(|it| *turn(it, "i1", 0) = "No.".to_owned(), "m1:r1 critic", "Why, 1?", "No.");
    let shorter = |it: &mut Outcome| {
        it.logs.get_mut(&MoveId(1)).unwrap().get_mut("i1").unwrap().truncate(3);
    };
    check_first(shorter, "m1:r2 D1", "Since 2.", "");
    check_first(
        |it| it.scores[0].scores_by_agent.get_mut("D1").unwrap().reasoning = "Dear.".to_owned(),
        "m1 scores of D1",
        "feasibility 8, impact 8, risk_adjusted_return 8, strategic_alignment 8:",
        "feasibility 8, impact 8, risk_adjusted_return 8, strategic_alignment 8: Dear.",
    );
}

#[test]
fn findings_and_moves_come_before_debates() {
    let edit = |it: &mut Outcome| {
        it.moves[1].draft.title = "Buy two rivals".to_owned();
        *turn(it, "i1", 0) = "No.".to_owned();
    };
    let first = changed(edit).first.unwrap();
    assert_eq!(first.place, "m2");
    assert!(first.texts.a.contains("Tie credit to margin"), "{}", first.texts.a);
    assert!(first.texts.b.contains("Buy two rivals") && first.texts.b.ends_with('…'));
    let edit = |it: &mut Outcome| {
        it.findings[1].findings[0].draft.claim = "All houses advise to buy.".to_owned();
        it.moves[0].draft.title = "Buy two rivals".to_owned();
    };
    assert_eq!(changed(edit).first.unwrap().place, "F2");
}

#[test]
fn changed_scores_and_ranks_are_listed() {
    let found = changed(|it| {
        it.scores[1] = scored(2, [(9, 0), (9, 0), (9, 0)]);
        it.spending[0].calls += 2;
    });
    insta::assert_snapshot!("diff_text", found.text());
    assert_eq!((found.cost.a.calls, found.cost.b.calls), (28, 30));
}

#[test]
fn moves_with_the_same_number_but_other_titles_are_listed_separately() {
    let found = changed(|it| it.moves[1].draft.title = "Buy a rival".to_owned());
    let scores: Vec<(&str, Option<u32>, Option<u32>)> =
        found.moves.iter().map(|it| (&*it.title, it.score.a, it.score.b)).collect();
    assert_eq!(
        scores,
        [("Buy a rival", None, Some(80)), ("Tie credit to margin", Some(80), None)],
        "{}",
        found.text()
    );
}

#[test]
fn changed_settings_are_listed_by_path() {
    let config = DEFAULT
        .replace("rounds = 10", "rounds = 9")
        .replace("[models.scoring]\n", "[models.D1]\ntemperature = 0.2\n\n[models.scoring]\n");
    let config =
        config.replace("sit on the board of directors as its operational", "are the operational");
    let found = diff(&default_run().run, &complete_run("run-b", &config, |_| {}).run).unwrap();
    let listed: Vec<String> = found
        .settings
        .iter()
        .map(|it| format!("{}: {:?} → {:?}", it.path, it.values.a, it.values.b))
        .collect();
    insta::assert_snapshot!("diff_settings", listed.join("\n"));
}

#[test]
fn incomplete_runs_cannot_be_compared() {
    let (a, b) = (default_run(), default_run());
    fs::remove_file(b.run.dir().join("report.json")).unwrap();
    let error = diff(&a.run, &b.run).unwrap_err();
    assert!(matches!(error, DiffError::NoReport(_)));
    assert!(error.to_string().ends_with("complete it with `consulting resume`"));
    fs::write(b.run.dir().join("report.json"), "{}").unwrap();
    assert!(matches!(diff(&a.run, &b.run).unwrap_err(), DiffError::Report { .. }));
}

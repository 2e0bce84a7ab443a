//! The harness finds effects that are planted in scripted critics, and finds no effect if none is planted.

use std::{collections::BTreeMap, fs};

use super::{create, execute, run, scripted};
use crate::ablate::{
    Ablation, Arm, Critics, Decision, ExecuteOptions, TrialResult, mean_interval, new_settings,
};

/// Returns the number of correct verdicts for each pair.
fn correct(ablation: &Ablation, arm: Arm, is_flawed: bool) -> Vec<i64> {
    let mut pairs: BTreeMap<usize, i64> = BTreeMap::new();
    let of_arm = |it: &&TrialResult| it.arm == arm && it.flaw.is_some() == is_flawed;
    for it in ablation.trials.iter().filter(of_arm) {
        *pairs.entry(it.pair).or_default() += i64::from(it.is_correct());
    }
    pairs.into_values().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_harness_recovers_the_planted_skill_and_finds_no_effect_in_the_placebo() {
    let arms =
        [Arm::OneCall, Arm::SelfCritique, Arm::Critique, Arm::Debate1, Arm::Debate3, Arm::Placebo];
    let ablation = run(scripted(&arms, 64, 1)).await;
    assert!(ablation.failures.is_empty() && !ablation.is_incomplete(), "{:?}", ablation.failures);
    for arm in arms {
        let (sensitivity, specificity) = Critics::Skilled.planted(arm);
        for (planted, is_flawed) in [(sensitivity, true), (specificity, false)] {
            // 12 intervals of this level contain all true values with a probability of 99 %.
            let interval = mean_interval(&correct(&ablation, arm, is_flawed), 1, 0.999).unwrap();
            assert!(interval.contains(planted), "{arm}, {is_flawed}: {planted} {interval:?}");
        }
    }
    let decision = |arm, reference| ablation.contrast(arm, reference).unwrap().decision;
    for arm in [Arm::Critique, Arm::Debate1, Arm::Debate3] {
        assert_eq!(decision(arm, Arm::OneCall), Decision::Better, "{arm}");
    }
    assert_eq!(decision(Arm::Debate3, Arm::Placebo), Decision::Better);
    assert_eq!(decision(Arm::Placebo, Arm::OneCall), Decision::NoEffect);
    // One critique recovers most of the gain, so the debate adds too little to be found.
    assert_eq!(decision(Arm::Debate3, Arm::Critique), Decision::NoEffect);
}

#[tokio::test(flavor = "multi_thread")]
async fn critics_of_equal_skill_have_no_effect_and_the_report_says_so() {
    let arms = [Arm::OneCall, Arm::SelfConsistency, Arm::Critique, Arm::Debate3, Arm::Placebo];
    let dir = tempfile::tempdir().unwrap();
    let settings = scripted(&arms, 16, 2);
    let settings = crate::ablate::AblationSettings { critics: Some(Critics::Equal), ..settings };
    let ablation = create(dir.path(), settings).await;
    let options = ExecuteOptions { concurrency: 4, ..ExecuteOptions::default() };
    let results = execute(&ablation, options).await.unwrap();
    assert_eq!(results.contrasts.len(), 7);
    assert!(results.contrasts.iter().all(|it| it.decision == Decision::NoEffect), "{results:?}");
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert_eq!(report.matches("No effect found (difference").count(), 7, "{report}");
    assert!(report.contains("SCRIPTED CRITICS"), "{report}");
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("<script") && !page.contains("src="));
    let stored: Ablation =
        serde_json::from_str(&fs::read_to_string(dir.path().join("ablation.json")).unwrap())
            .unwrap();
    assert_eq!(stored.trials, results.trials);
}

#[tokio::test(flavor = "multi_thread")]
async fn self_consistency_uses_as_many_tokens_as_the_debate() {
    let arms = [Arm::OneCall, Arm::SelfConsistency, Arm::Debate3];
    let ablation = run(scripted(&arms, 6, 1)).await;
    let ratio = ablation.equal_tokens.unwrap();
    assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    let tokens = |arm: Arm, move_id: &str| {
        let of_move = |it: &&TrialResult| it.arm == arm && it.move_id == move_id;
        let trial = ablation.trials.iter().find(of_move).unwrap();
        (trial.tokens(), trial.tokens() / trial.calls)
    };
    for it in ablation.trials.iter().filter(|it| it.arm == Arm::Debate3) {
        let (used, per_call) = tokens(Arm::SelfConsistency, &it.move_id);
        assert!(used.abs_diff(it.tokens()) <= per_call, "{}: {used} {}", it.move_id, it.tokens());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_moves_lead_to_no_decision() {
    let ablation = run(scripted(&[Arm::OneCall, Arm::Critique], 4, 1)).await;
    assert_eq!(ablation.contrasts.len(), 1);
    assert_eq!(ablation.contrasts[0].decision, Decision::TooFewPairs);
    // All calls belong to complete pairs.
    let arms = &ablation.arms;
    assert_eq!(ablation.total.calls, arms.iter().map(|it| it.calls).sum::<u64>());
    assert_eq!(ablation.total.input_tokens, arms.iter().map(|it| it.input_tokens).sum::<u64>());
    assert_eq!(ablation.total.output_tokens, arms.iter().map(|it| it.output_tokens).sum::<u64>());
}

#[test]
fn contradictory_settings_are_rejected_with_advice() {
    let check = |change: fn(&mut crate::ablate::AblationSettings), expected: &[&str]| {
        let mut settings = scripted(&Arm::ALL, 2, 1);
        change(&mut settings);
        let error = new_settings(settings, None).unwrap_err().to_string();
        assert!(expected.iter().all(|it| error.contains(it)), "{error}");
    };
    check(|it| it.pairs = 1, &["at least 2 pairs", "--moves 2"]);
    check(|it| it.arms = vec![Arm::Critique], &["add one-call to --arms"]);
    check(
        |it| it.arms = vec![Arm::OneCall, Arm::Placebo],
        &["`placebo`", "add debate-3 to --arms"],
    );
    check(|it| it.critic_model = Some("b".to_owned()), &["--critic-model", "omit it"]);
    check(|it| it.choice.provider = "ollama".to_owned(), &["--critic-model"]);
    check(
        |it| {
            it.choice.provider = "ollama".to_owned();
            it.arms = vec![Arm::OneCall];
        },
        &["--critics", "ollama"],
    );
    check(
        |it| {
            it.choice.provider = "ollama".to_owned();
            it.critics = None;
            it.arms = vec![Arm::OneCall, Arm::Critique];
        },
        &["about 12 calls", "--max-cost or --max-tokens"],
    );
}

//! Ranking and its robustness.

use proptest::prelude::*;

use crate::{
    moves::MoveId,
    rank::{Unscored, drift, kendall_tau, rank, robustness, severity},
    score::{MakerScore, Mark, MoveScore, ScoreSource},
    watch::compression,
};

/// Returns the score of a move. For each decision maker, the first number is the score on all four metrics, and the
/// second number is added to the score on `impact`.
pub(crate) fn scored(id: u16, makers: [(u8, u8); 3]) -> MoveScore {
    let makers = (1..).zip(makers).map(|(n, (all, more)): (u32, (u8, u8))| {
        let names = ["impact", "feasibility", "risk_adjusted_return", "strategic_alignment"];
        let mut score =
            MakerScore { score_source: ScoreSource::Json, ..MakerScore::neutral(&names) };
        score.metrics.values_mut().for_each(|it| *it = all);
        score.metrics.insert("impact".to_owned(), all + more);
        (format!("D{n}"), score)
    });
    MoveScore::new(MoveId(id), makers.collect(), [])
}

fn even(id: u16, value: u8) -> MoveScore {
    scored(id, [(value, 0); 3])
}

#[test]
fn ties_are_broken_by_minimum_then_spread_then_number() {
    let scores = [
        even(9, 7),
        scored(1, [(6, 0), (7, 0), (8, 0)]),
        // The totals 25, 29 and 30 have a smaller spread than those of m6 (26, 26 and 32), but a lower minimum.
        scored(5, [(6, 1), (7, 1), (7, 2)]),
        scored(6, [(6, 2), (6, 2), (8, 0)]),
        // The totals 26, 28 and 30 have the same minimum as those of m6, and a smaller spread.
        scored(8, [(6, 2), (7, 0), (7, 2)]),
        even(3, 7),
        even(4, 8),
    ];
    let ranking = rank(&scores, Vec::new(), 3);
    assert!(ranking.all().skip(1).all(|it| it.total_score == 84));
    let order: Vec<u16> = ranking.all().map(|it| it.move_id.0).collect();
    assert_eq!(order, [4, 3, 9, 8, 6, 5, 1]);
    assert_eq!(ranking.recommended.len(), 3);
    assert_eq!(ranking.other[3].spread, 8);
}

#[test]
fn unscored_moves_have_no_rank() {
    let failed =
        Unscored { move_id: MoveId(1), reason: "the critic could not be reached".to_owned() };
    let ranking = rank(&[even(2, 1)], vec![failed.clone()], 3);
    assert_eq!(ranking.recommended.len(), 1);
    assert!(ranking.other.is_empty());
    assert_eq!(ranking.unscored, [failed]);
}

#[test]
fn recommended_moves_with_default_scores_are_marked() {
    let mut score = even(1, 5);
    score.scores_by_agent.get_mut("D2").unwrap().score_source = ScoreSource::Default;
    let score = MoveScore::new(score.move_id, score.scores_by_agent, []);
    let ranking = rank(&[score], Vec::new(), 3);
    assert!(ranking.recommended[0].marks.contains(&Mark::Defaulted));
}

#[test]
fn severity_identifies_strict_scorers() {
    let scores: Vec<MoveScore> = (1..=5)
        .map(|id| scored(id, [(id as u8 + 1, 1), (id as u8 + 2, 1), (id as u8 + 3, 1)]))
        .collect();
    let severity = severity(&scores).unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    close(severity.scorers["D1"], -1.0);
    close(severity.scorers["D3"], 1.0);
    close(severity.metrics["impact"], 0.75);
    close(severity.residual, 0.0);
    // Every decision maker scored every move, so there is nothing to adjust.
    for score in &scores {
        close(severity.adjusted[&score.move_id], f64::from(score.total_score));
    }
}

#[test]
fn severity_compensates_for_a_missing_scorer() {
    let mut scores: Vec<MoveScore> =
        (1..=4).map(|id| scored(id, [(4, 0), (6, 0), (8, 0)])).collect();
    let strict = scores[0].scores_by_agent.get_mut("D1").unwrap();
    *strict = MakerScore::neutral(&[
        "impact", "feasibility", "risk_adjusted_return", "strategic_alignment",
    ]);
    let severity = severity(&scores).unwrap();
    assert!((severity.adjusted[&MoveId(1)] - 72.0).abs() < 1e-9);
    assert!(crate::rank::severity(&scores[..1]).is_none());
}

#[test]
fn clear_and_contested_ranks_are_distinguished() {
    let scores = [
        even(1, 9),
        even(2, 8),
        scored(3, [(9, 0), (5, 0), (4, 0)]),
        scored(4, [(4, 0), (5, 0), (9, 0)]),
        even(5, 2),
    ];
    let ranking = rank(&scores, Vec::new(), 3);
    let robustness = robustness(&ranking, &scores);
    assert_eq!(robustness.verdict, "robust: m1, m2; too close to call: m3, m4");
    let third = &robustness.standings[2];
    assert_eq!(third.move_id, MoveId(3));
    assert!((0.2..0.8).contains(&third.top), "{third:?}");
    assert_eq!(third.depends_on, ["D1"]);
    assert_eq!(robustness.standings[4].top, 0.0);
}

#[test]
fn equal_scores_are_unresolved() {
    let scores: Vec<MoveScore> = (1..=12).map(|it| even(it, 7)).collect();
    let robustness = robustness(&rank(&scores, Vec::new(), 3), &scores);
    assert!(robustness.standings.iter().all(|it| (it.top - 0.25).abs() < 1e-9));
    assert!(
        robustness.verdict.starts_with("too close to call: m1, m2, "),
        "{}",
        robustness.verdict
    );
    assert!(compression(&scores, 0.0).unwrap().unresolved);
}

#[test]
fn drift_is_the_change_from_the_baseline_score() {
    let before = [even(2, 5), even(1, 6), even(3, 7)];
    let after = [even(1, 7), even(2, 4)];
    let drifts = drift(&before, &after);
    assert_eq!(
        drifts.iter().map(|it| (it.move_id.0, it.change())).collect::<Vec<_>>(),
        [(1, 12), (2, -12)]
    );
    let ranked = |scores: &[MoveScore]| rank(scores, Vec::new(), 3);
    assert_eq!(kendall_tau(&ranked(&before), &ranked(&after)), Some(1.0));
    assert_eq!(
        kendall_tau(&ranked(&before), &ranked(&[even(1, 1), even(2, 2), even(3, 3)])),
        Some(1.0 / 3.0)
    );
    assert_eq!(kendall_tau(&ranked(&[]), &ranked(&before)), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rankings_are_complete_and_independent_of_input_order(values in prop::collection::vec((1_u8..=9, 0_u8..2, 1_u8..=9, 1_u8..=9), 0..16), k in 0_usize..5) {
        let scores: Vec<MoveScore> = (1..).zip(&values).map(|(id, &(a, more, b, c))| scored(id, [(a, more), (b, 0), (c, 0)])).collect();
        let ranking = rank(&scores, Vec::new(), k);
        prop_assert_eq!(ranking.all().count(), scores.len());
        prop_assert_eq!(ranking.recommended.len(), k.min(scores.len()));
        prop_assert!(ranking.all().zip(ranking.all().skip(1)).all(|(a, b)| a.total_score >= b.total_score));
        let tops: f64 = robustness(&ranking, &scores).standings.iter().map(|it| it.top).sum();
        prop_assert!((tops - ranking.recommended.len() as f64).abs() < 1e-6);
        severity(&scores);

        let mut backwards = scores;
        backwards.reverse();
        prop_assert_eq!(rank(&backwards, Vec::new(), k), ranking);
    }
}

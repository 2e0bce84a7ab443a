//! Computes the metrics of the arms and compares them, by the rules in the documentation of [`ablate`](super).

use std::collections::{BTreeMap, BTreeSet};

use llm::Money;
use serde::{Deserialize, Serialize};

use super::{
    arm::Arm,
    contrast::{CONTRASTS, ContrastResult, PairCounts, contrast, max_p_value},
    error::AblationError,
    flaw::FlawKind,
    script::Critics,
    settings::AblationSettings,
    statistics::{Interval, jaccard, kendall_tau, mean, mean_over_pairs},
    trial::TrialResult,
};
use crate::{
    config::{Config, Group},
    data::SeededRng,
    spending::Spending,
};

/// Level of the intervals of single arms.
const ARM_LEVEL: f64 = 0.95;

/// Tolerated relative difference between the tokens used by self-consistency and by the debate of three rounds.
pub(super) const TOKEN_TOLERANCE: f64 = 0.1;

/// Results of an ablation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    pub ticker: String,
    /// Source of the figures from which the moves are made.
    pub data: String,
    /// The scripted critics. `None` if a model answered.
    pub critics: Option<Critics>,
    /// Models by role.
    pub models: BTreeMap<String, String>,
    pub seed: u64,
    /// Number of generated pairs of moves.
    pub pairs: usize,
    /// Number of pairs that were judged in all arms and repeats. Only these are evaluated.
    pub complete_pairs: usize,
    pub repeats: u32,
    pub arms: Vec<ArmResult>,
    pub contrasts: Vec<ContrastResult>,
    /// Level of the intervals of the comparisons.
    pub contrast_level: f64,
    /// Largest p-value of an effect.
    pub max_p_value: f64,
    /// Tokens of self-consistency, relative to the debate of three rounds.
    pub equal_tokens: Option<f64>,
    /// All recorded calls, including those of incomplete pairs and of failed trials.
    pub total: TotalCost,
    /// Reason why the ablation stopped early.
    pub stop_reason: Option<String>,
    /// Failed trials.
    pub failures: Vec<String>,
    /// All results, including those of incomplete pairs.
    pub trials: Vec<TrialResult>,
}

/// Cost of all recorded calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotalCost {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Cost of the calls, if all prices are known.
    pub cost: Option<Money>,
}

/// Outcome of an execution, before the analysis.
#[derive(Debug)]
pub(super) struct Executed {
    pub(super) trials: Vec<TrialResult>,
    pub(super) failures: Vec<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) spending: Spending,
}

/// Metrics of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmResult {
    pub arm: Arm,
    pub sensitivity: Interval,
    pub specificity: Interval,
    /// Mean of sensitivity and specificity.
    pub accuracy: Interval,
    /// Sensitivity for each kind of flaw.
    pub by_kind: BTreeMap<FlawKind, f64>,
    /// Fraction of the detected flaws whose kind is named correctly.
    pub kind_named: Option<f64>,
    /// Stability of the top three. `None` with a single repeat.
    pub top_three: Option<f64>,
    /// Kendall's tau between repeats. `None` with a single repeat, or if all scores are equal.
    pub tau_repeats: Option<f64>,
    /// Kendall's tau between the mean scores and the truth. `None` if all scores are equal.
    pub tau_truth: Option<f64>,
    /// Number of verdicts that could not be read.
    pub unread: usize,
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Number of tokens per judged move.
    pub tokens_per_move: f64,
    /// Cost of the calls, if all prices are known.
    pub cost: Option<Money>,
    /// Expected sensitivity and specificity, if the critics are scripted.
    pub planted: Option<(f64, f64)>,
}

impl Ablation {
    /// Computes the results. Fails if no pair was judged in all arms and repeats.
    pub(super) fn new(
        settings: &AblationSettings,
        config: &Config,
        executed: Executed,
    ) -> Result<Self, AblationError> {
        let Executed { mut trials, mut failures, stop_reason, spending } = executed;
        trials.sort_by(|a, b| {
            let key = |it: &TrialResult| (it.arm, it.pair, it.flaw, it.repeat);
            key(a).cmp(&key(b))
        });
        failures.sort();
        let complete = complete_pairs(&trials, 2 * settings.arms.len() * settings.repeats as usize);
        if complete.is_empty() {
            let reason = stop_reason.or_else(|| failures.first().cloned());
            return Err(AblationError::NoResults(reason.unwrap_or_else(|| "none".to_owned())));
        }
        let tables: BTreeMap<Arm, Table<'_>> = settings
            .arms
            .iter()
            .map(|arm| (*arm, Table::new(*arm, &trials, &complete, settings.repeats)))
            .collect();
        let planned: Vec<_> = CONTRASTS
            .iter()
            .filter_map(|it| Some((it, tables.get(&it.0)?, tables.get(&it.1)?)))
            .collect();
        let comparisons = planned.len();
        let contrasts: Option<Vec<_>> = planned
            .iter()
            .map(|(it, a, b)| contrast(it, &a.counts, &b.counts, comparisons))
            .collect();
        let critics = settings.critics;
        let arms: Option<Vec<_>> = tables.values().map(|it| it.result(critics)).collect();
        let tokens = |arm| Some(tables.get(&arm)?.tokens() as f64);
        let equal_tokens = tokens(Arm::SelfConsistency).zip(tokens(Arm::Debate3));
        let are_prices_known = trials.iter().all(|it| it.cost.is_some());
        let nothing = || AblationError::NoResults("none".to_owned());
        Ok(Self {
            ticker: settings.ticker.clone(),
            data: settings.data.label(&settings.ticker),
            critics,
            models: models(settings, config),
            seed: settings.choice.seed,
            pairs: settings.pairs,
            complete_pairs: complete.len(),
            repeats: settings.repeats,
            arms: arms.ok_or_else(nothing)?,
            contrasts: contrasts.ok_or_else(nothing)?,
            contrast_level: 1.0 - max_p_value(comparisons),
            max_p_value: max_p_value(comparisons),
            equal_tokens: equal_tokens.map(|(a, b)| a / b.max(1.0)),
            total: TotalCost {
                calls: spending.calls,
                input_tokens: spending.input,
                output_tokens: spending.output,
                cost: are_prices_known.then_some(spending.money),
            },
            stop_reason,
            failures,
            trials,
        })
    }

    /// Returns whether some trials have no result.
    pub fn is_incomplete(&self) -> bool {
        self.complete_pairs < self.pairs
    }

    /// Returns the comparison of two arms.
    pub fn contrast(&self, arm: Arm, reference: Arm) -> Option<&ContrastResult> {
        self.contrasts.iter().find(|it| it.arm == arm && it.reference == reference)
    }

    /// Returns the metrics of an arm.
    pub fn arm(&self, arm: Arm) -> Option<&ArmResult> {
        self.arms.iter().find(|it| it.arm == arm)
    }
}

fn models(settings: &AblationSettings, config: &Config) -> BTreeMap<String, String> {
    if settings.critics.is_some() {
        return BTreeMap::new();
    }
    let model = |group, id: &str| settings.choice.model(config, group, id).to_string();
    let maker = config.decision_makers.first().map_or("", |it| &it.id);
    let mut models = BTreeMap::from([
        ("decision maker".to_owned(), model(Group::DecisionMakers, maker)),
        ("verdicts".to_owned(), model(Group::Scoring, maker)),
        ("critic".to_owned(), model(Group::Critic, &config.critic.id)),
    ]);
    if settings.critic_model.is_some() {
        let other = model(Group::Critic, super::settings::OTHER_CRITIC);
        models.insert("critic of the mixed arm".to_owned(), other);
    }
    models
}

/// Returns the pairs with this number of results.
fn complete_pairs(results: &[TrialResult], expected: usize) -> BTreeSet<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    results.iter().for_each(|it| *counts.entry(it.pair).or_default() += 1);
    counts.into_iter().filter(|(_, n)| *n == expected).map(|(pair, _)| pair).collect()
}

/// Results of one arm for the complete pairs.
struct Table<'a> {
    arm: Arm,
    trials: Vec<&'a TrialResult>,
    counts: PairCounts,
}

impl<'a> Table<'a> {
    fn new(arm: Arm, trials: &'a [TrialResult], complete: &BTreeSet<usize>, repeats: u32) -> Self {
        let is_used = |it: &&TrialResult| it.arm == arm && complete.contains(&it.pair);
        let trials: Vec<&TrialResult> = trials.iter().filter(is_used).collect();
        let correct = |pair: usize, is_flawed: bool| {
            let of_move =
                trials.iter().filter(|it| it.pair == pair && it.flaw.is_some() == is_flawed);
            of_move.map(|it| i64::from(it.is_correct())).sum()
        };
        let hits = complete.iter().map(|it| correct(*it, true)).collect();
        let passes = complete.iter().map(|it| correct(*it, false)).collect();
        Self { arm, counts: PairCounts { hits, passes, repeats }, trials }
    }

    fn tokens(&self) -> u64 {
        self.trials.iter().map(|it| it.tokens()).sum()
    }

    /// Returns the scores in each repeat, in the order of the moves.
    fn scores(&self) -> Vec<Vec<(&'a str, f64)>> {
        let mut repeats: BTreeMap<u32, Vec<(&str, f64)>> = BTreeMap::new();
        for it in &self.trials {
            repeats.entry(it.repeat).or_default().push((&it.move_id, it.verdict.score));
        }
        repeats.into_values().collect()
    }

    fn result(&self, critics: Option<Critics>) -> Option<ArmResult> {
        let scores = self.scores();
        let values = |it: &Vec<(&str, f64)>| it.iter().map(|it| it.1).collect::<Vec<f64>>();
        let tops: Vec<BTreeSet<&str>> =
            scores.iter().enumerate().map(|(repeat, it)| top_three(self.arm, repeat, it)).collect();
        let trials = || self.trials.iter();
        let of_kind = |kind| trials().filter(move |it| it.flaw == Some(kind));
        let by_kind = FlawKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, mean_share(of_kind(kind).map(|it| it.is_correct()))?)));
        let detected = trials().filter(|it| it.flaw.is_some() && it.verdict.flawed);
        let costs = trials().map(|it| it.cost);
        let [sensitivity, specificity, accuracy] = self.counts.intervals(ARM_LEVEL)?;
        Some(ArmResult {
            arm: self.arm,
            sensitivity,
            specificity,
            accuracy,
            by_kind: by_kind.collect(),
            kind_named: mean_share(detected.map(|it| it.verdict.kind == it.flaw)),
            top_three: mean_over_pairs(&tops, |a, b| Some(jaccard(a, b))),
            tau_repeats: mean_over_pairs(&scores, |a, b| kendall_tau(&values(a), &values(b))),
            tau_truth: self.tau_truth(),
            unread: trials().filter(|it| !it.verdict.is_read).count(),
            calls: trials().map(|it| it.calls).sum(),
            input_tokens: trials().map(|it| it.input_tokens).sum(),
            output_tokens: trials().map(|it| it.output_tokens).sum(),
            tokens_per_move: self.tokens() as f64 / self.trials.len().max(1) as f64,
            cost: costs.into_iter().try_fold(Money::ZERO, |sum, it| Some(sum + it?)),
            planted: critics.map(|it| it.planted(self.arm)),
        })
    }

    fn tau_truth(&self) -> Option<f64> {
        let mut moves: BTreeMap<&str, (f64, Vec<f64>)> = BTreeMap::new();
        for it in &self.trials {
            let truth = if it.flaw.is_some() { 0.0 } else { 1.0 };
            let entry = moves.entry(&it.move_id).or_insert_with(|| (truth, Vec::new()));
            entry.1.push(it.verdict.score);
        }
        let truths: Vec<f64> = moves.values().map(|it| it.0).collect();
        let scores: Vec<f64> = moves.values().filter_map(|it| mean(&it.1)).collect();
        kendall_tau(&scores, &truths)
    }
}

/// Returns the three best moves. Moves with equal scores are in random order, so that ties do not look stable.
fn top_three<'a>(arm: Arm, repeat: usize, scores: &[(&'a str, f64)]) -> BTreeSet<&'a str> {
    let mut order: Vec<(f64, u64, &str)> = scores
        .iter()
        .map(|(id, score)| {
            (*score, SeededRng::from_text(&format!("{arm} {repeat} {id}")).next_u64(), *id)
        })
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    order.into_iter().take(3).map(|it| it.2).collect()
}

fn mean_share(all: impl Iterator<Item = bool>) -> Option<f64> {
    mean(&all.map(|it| if it { 1.0 } else { 0.0 }).collect::<Vec<f64>>())
}

//! Collects the data of the report from the final state of a run.

use std::collections::BTreeMap;

use llm::{Catalog, Money, RecordMode, Recording};

use super::{
    error::RunError,
    fork::ForkPoint,
    run_dir::{CALLS_FILE, Run},
};
use crate::{
    call::CallUsage,
    data::render,
    moves::MoveId,
    pipeline::PipelineState,
    report::{Isolation, Outcome, Provider, SpendingEntry},
};

/// Collects the data of the report. Returns `None` if the run has not read its company data yet.
pub(crate) fn collect_outcome(
    run: &Run,
    state: &PipelineState,
) -> Result<Option<Outcome>, RunError> {
    let Some(company) = state.company.clone() else { return Ok(None) };
    let config = run.config();
    let run_config = &run.manifest().run_config;
    let provider = if run_config.choice.is_scripted() {
        Provider::Scripted
    } else {
        Provider::Models { name: run_config.choice.provider.clone() }
    };
    let mut findings = state.findings.clone();
    findings.sort_by_key(|it| it.inference);
    let logs = state.conversation_logs.iter().map(|it| (it.move_id, it.logs.clone()));
    Ok(Some(Outcome {
        run_id: run_config.run_id.clone(),
        started_on: Some(run_config.data.as_of),
        documents: vec![render::financial(&company), render::news(&company)],
        narrated: state.narrations.clone(),
        company,
        findings,
        moves: state.moves(),
        missing: state.missing_moves.clone(),
        scores: state.policy_scores.clone(),
        baselines: state.baseline_scores.clone(),
        unscored: state.unscored_moves.clone(),
        logs: logs.collect(),
        provider,
        isolation: state
            .isolation
            .clone()
            .unwrap_or_else(|| Isolation { backend: "none".to_owned(), ..Isolation::default() }),
        isolation_by_move: state
            .held_in
            .iter()
            .map(|it| (it.move_id, it.isolation.clone()))
            .collect(),
        mixed_settings: mixed_settings(run, state),
        spending: spending_by_role(run, &state.calls)?,
        spending_by_move: spending(&state.calls, |it| {
            let id = it.move_id.clone()?;
            Some((MoveId::parse(&id).ok()?, id))
        }),
        spending_by_round: spending(&state.calls, |it| {
            it.move_id.is_some().then(|| (it.round, it.round.to_string()))
        }),
        own_spending: own_spending(run)?,
        failures: state.failures.clone(),
        warnings: state.warnings.clone(),
        manifest: run.manifest().report_lines(),
        agents: config.agent_names(),
        decision_makers: config.decision_makers.clone(),
        metrics: config.metrics.clone(),
        top_k: config.top_k,
        best_score: config.max_total_score(),
    }))
}

/// Returns which moves of a fork were debated with the settings of the original run, if the fork changed settings and
/// kept some of the debates.
fn mixed_settings(run: &Run, state: &PipelineState) -> Option<String> {
    let origin = run.manifest().fork_origin.as_ref().filter(|it| !it.set.is_empty())?;
    let ForkPoint::Round { move_id, .. } = origin.at.parse().ok()? else { return None };
    let is_kept = |it: &MoveId| *it != move_id && (origin.only || *it < move_id);
    let kept = state.policy_scores.iter().map(|it| it.move_id).filter(is_kept);
    let mut kept: Vec<MoveId> = kept.collect();
    kept.sort();
    let kept: Vec<String> = kept.iter().map(ToString::to_string).collect();
    (!kept.is_empty()).then(|| {
        format!(
            "The ranking mixes settings: {} were debated in {}, without {}.",
            kept.join(", "),
            origin.from.run_config.run_id,
            origin.set.join(", ")
        )
    })
}

/// Returns the spending by role. The last entry contains calls that were paid for but are not part of the result, such
/// as refusals, attempts that failed after the provider had started to answer, and the scores of a debate that was
/// continued later.
fn spending_by_role(run: &Run, calls: &[CallUsage]) -> Result<Vec<SpendingEntry>, RunError> {
    let mut by_role =
        spending(calls, |it| Some(((it.group, it.agent_id.clone()), it.group.role(&it.agent_id))));
    // The recording of a fork also contains calls of its origin that the fork does not use. Runs on a cluster have no
    // recording.
    if run.manifest().fork_origin.is_none() && run.dir().join(CALLS_FILE).exists() {
        let unused = recorded_spending(run, 0)?.minus(&SpendingEntry::total(&by_role));
        by_role.extend((unused.calls > 0).then_some(unused));
    }
    Ok(by_role)
}

/// Returns the spending on the calls that a fork made itself. They follow the inherited calls in its recording. Returns
/// `None` if the run is not a fork.
fn own_spending(run: &Run) -> Result<Option<SpendingEntry>, RunError> {
    let origin = run.manifest().fork_origin.as_ref();
    origin.map(|it| recorded_spending(run, it.inherited_calls)).transpose()
}

/// Returns the spending on all paid calls in the recording, except for the first `skipped` calls.
fn recorded_spending(run: &Run, skipped: usize) -> Result<SpendingEntry, RunError> {
    let recording = Recording::open(run.dir().join(CALLS_FILE), RecordMode::Replay)?;
    let mut own = SpendingEntry::none("this run");
    for (model, usage, cost) in recording.paid_calls(skipped) {
        let catalog_price = || Catalog::builtin().entry(&model)?.cost(usage.as_ref()?);
        let dollars = cost.or_else(catalog_price).map(Money::dollars);
        let usage = usage.unwrap_or_default();
        own.add(&SpendingEntry::for_call([usage.input, usage.cached, usage.output], dollars));
    }
    Ok(own)
}

/// Adds up the spending on calls, grouped by a key. `key` returns the sort key and the display name of a call, or
/// `None` to skip it.
fn spending<K: Ord>(
    calls: &[CallUsage],
    key: impl Fn(&CallUsage) -> Option<(K, String)>,
) -> Vec<SpendingEntry> {
    let mut all: BTreeMap<K, SpendingEntry> = BTreeMap::new();
    for usage in calls {
        let Some((sort_key, name)) = key(usage) else { continue };
        let tokens = [usage.input, usage.cached, usage.output];
        let call = SpendingEntry::for_call(tokens, usage.cost.map(Money::dollars));
        all.entry(sort_key).or_insert_with(|| SpendingEntry::none(name)).add(&call);
    }
    all.into_values().collect()
}

//! Collects the data of the report from the final state of a run.

use std::collections::BTreeMap;

use llm::{Catalog, Money, RecordMode, Recording};

use super::{
    error::RunError,
    run_dir::{CALLS_FILE, Run},
};
use crate::{
    call::CallUsage,
    data::render,
    moves::MoveId,
    pipeline::PipelineState,
    report::{Isolation, Outcome, Provider, Spending},
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
        documents: vec![render::financial(&company), render::news(&company)],
        narrated: [
            ("financial.md".to_owned(), state.financial_data_raw.clone()),
            ("news.md".to_owned(), state.news_data_raw.clone()),
        ]
        .into(),
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
            .unwrap_or(Isolation { backend: "none".to_owned(), isolated: false }),
        spending: spending(&state.calls, |it| {
            Some(((it.group, it.agent_id.clone()), it.group.role(&it.agent_id)))
        }),
        spending_by_move: spending(&state.calls, |it| {
            let id = it.move_id.clone()?;
            Some((MoveId::parse(&id).ok()?, id))
        }),
        spending_by_round: spending(&state.calls, |it| {
            it.move_id.is_some().then(|| (it.round, it.round.to_string()))
        }),
        own_spending: own_spending(run)?,
        warnings: state.warnings.clone(),
        manifest: run.manifest().report_lines(),
        decision_makers: config.decision_makers.clone(),
        metrics: config.metrics.clone(),
        top_k: config.top_k,
        best_score: config.max_total_score(),
    }))
}

/// Returns the spending on the calls that a fork made itself. They follow the inherited calls in its recording. Returns
/// `None` if the run is not a fork.
fn own_spending(run: &Run) -> Result<Option<Spending>, RunError> {
    let Some(origin) = &run.manifest().fork_origin else { return Ok(None) };
    let recording = Recording::open(run.dir().join(CALLS_FILE), RecordMode::Replay)?;
    let mut own = Spending::none("this run");
    for (model, response) in recording.responses_after(origin.inherited_calls) {
        let usage = response.usage.unwrap_or_default();
        let catalog_price = || Catalog::builtin().entry(&model)?.cost(&usage);
        own.add(&Spending {
            name: String::new(),
            calls: 1,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            dollars: response.cost.or_else(catalog_price).map(Money::dollars),
        });
    }
    Ok(Some(own))
}

/// Adds up the spending on calls, grouped by a key. `key` returns the sort key and the display name of a call, or
/// `None` to skip it.
fn spending<K: Ord>(
    calls: &[CallUsage],
    key: impl Fn(&CallUsage) -> Option<(K, String)>,
) -> Vec<Spending> {
    let mut all: BTreeMap<K, Spending> = BTreeMap::new();
    for usage in calls {
        let Some((sort_key, name)) = key(usage) else { continue };
        all.entry(sort_key).or_insert_with(|| Spending::none(name)).add(&Spending {
            name: String::new(),
            calls: 1,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            dollars: usage.cost.map(Money::dollars),
        });
    }
    all.into_values().collect()
}

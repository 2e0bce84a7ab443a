//! From a run's last state to what its report is made of.

use std::collections::BTreeMap;

use llm::{Catalog, RecordMode, Recording};

use super::{CALLS, Run, RunProblem};
use crate::{
    ask::Paid,
    data::render,
    moves::MoveId,
    pipeline::PipelineState,
    report::{Isolation, Outcome, Provider, Spending},
};

/// What a run came to; nothing where it has not gathered its data yet.
pub fn outcome(run: &Run, state: &PipelineState) -> Result<Option<Outcome>, RunProblem> {
    let Some(company) = state.company.clone() else { return Ok(None) };
    let config = run.config();
    let given = &run.manifest().given;
    let provider = if given.choice.is_scripted() {
        Provider::Scripted
    } else {
        Provider::Models { name: given.choice.provider.clone() }
    };
    let mut findings = state.findings.clone();
    findings.sort_by_key(|it| it.inference);
    let logs = state.conversation_logs.iter().map(|it| (it.move_id, it.logs.clone()));
    Ok(Some(Outcome {
        run_id: given.run_id.clone(),
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
            Some(((it.group, it.who.clone()), it.group.role(&it.who)))
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
        manifest: run.manifest().lines(),
        decision_makers: config.decision_makers.clone(),
        metrics: config.metrics.clone(),
        top_k: config.top_k,
        best_score: config.best_score(),
    }))
}

/// What a run that branched off paid itself: what its recording holds beyond what it took over.
fn own_spending(run: &Run) -> Result<Option<Spending>, RunProblem> {
    let Some(branch) = &run.manifest().branch else { return Ok(None) };
    let recording = Recording::open(run.folder().join(CALLS), RecordMode::Replay)?;
    let mut own = nothing("this run".to_owned());
    for (model, response) in recording.answers_after(branch.calls) {
        let usage = response.usage.unwrap_or_default();
        let known = || Catalog::builtin().entry(&model)?.cost(&usage);
        own.calls += 1;
        own.input_tokens += usage.input;
        own.cached_tokens += usage.cached;
        own.output_tokens += usage.output;
        let cost = response.cost.or_else(known);
        own.dollars = own.dollars.zip(cost).map(|(sum, it)| sum + it.dollars());
    }
    Ok(Some(own))
}

fn nothing(name: String) -> Spending {
    Spending {
        name,
        calls: 0,
        input_tokens: 0,
        cached_tokens: 0,
        output_tokens: 0,
        dollars: Some(0.0),
    }
}

/// What was spent, by whatever orders and names a call.
fn spending<K: Ord>(calls: &[Paid], place: impl Fn(&Paid) -> Option<(K, String)>) -> Vec<Spending> {
    let mut all: BTreeMap<K, Spending> = BTreeMap::new();
    for paid in calls {
        let Some((key, name)) = place(paid) else { continue };
        let spending = all.entry(key).or_insert_with(|| nothing(name));
        spending.calls += 1;
        spending.input_tokens += paid.input;
        spending.cached_tokens += paid.cached;
        spending.output_tokens += paid.output;
        spending.dollars = spending.dollars.zip(paid.cost).map(|(sum, it)| sum + it.dollars());
    }
    all.into_values().collect()
}

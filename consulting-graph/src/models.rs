//! Models of a run. Each model is wrapped in layers for rate limiting, the budget, retries and recording.

mod alias;
mod budget;
mod choice;
mod limits;
#[cfg(feature = "cluster")]
mod shared_account;
#[cfg(feature = "cluster")]
mod shared_budget;
mod shares;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use llm::{
    Backoff, Catalog, ErrorKind, ExposeSecret, Finish, Listener, Llm, Model as _, ModelId,
    Provider, RateLimit, RateLimiter, Recording, Response,
};

use crate::{
    call::{Answer, CallFailure, CallOutcome, CallSettings, CallUsage, FailureKind, ModelCall},
    config::{Config, Group},
    moves::MoveId,
    unusable,
};

use alias::ModelAlias;
pub use budget::Limit;
use budget::{BudgetedModel, Calls, RunBudget};
pub use choice::{ModelChoice, ModelChoiceError};
use limits::is_redacted;
pub use limits::{CallLimits, RESPONSE_LIMITS};
#[cfg(feature = "cluster")]
pub(crate) use shared_budget::SharedBudget;
#[cfg(feature = "cluster")]
use shared_budget::SharedBudgetModel;

/// Maximum number of concurrent calls to one provider.
pub(crate) const MAX_CONCURRENT_CALLS: usize = 16;

#[derive(Debug)]
pub struct Models {
    config: Config,
    choice: ModelChoice,
    /// Every model that the configuration uses, with its layers.
    llms: BTreeMap<ModelId, LayeredModel>,
    budget: Option<Arc<RunBudget>>,
    /// Budget of a run on a cluster.
    #[cfg(feature = "cluster")]
    shared_budget: Option<Arc<SharedBudget>>,
    /// Delays between the attempts of calls that use the shared budget.
    #[cfg(feature = "cluster")]
    backoff: Backoff,
    /// Recording of all calls. It also redacts secrets.
    recording: Recording,
    /// Error of the first call that a replay did not find in its recording.
    unrecorded_call: OnceLock<String>,
    /// Error of the first call that could not be written to the recording or synced to the disk.
    storage_failure: OnceLock<String>,
}

#[derive(Debug)]
struct LayeredModel {
    /// Model with a rate limit, without the other layers.
    #[cfg(feature = "cluster")]
    limited: Llm,
    /// Model for debate turns and summaries. It refuses calls that would use the budget reserved for scoring.
    turns: Llm,
    /// Model for all other calls.
    others: Llm,
}

impl Models {
    /// Creates the models that the configuration specifies. If `model_override` is set, it replaces all of them. The
    /// first `inherited_calls` calls in the recording do not count towards the limit, because a fork inherits them from
    /// the original run, which paid for them. All other calls in the recording count.
    pub fn new(
        config: &Config,
        choice: ModelChoice,
        model_override: Option<&Llm>,
        limit: Limit,
        recording: &Recording,
        inherited_calls: usize,
        call_limits: &CallLimits,
    ) -> Result<Self, ModelChoiceError> {
        let budget =
            RunBudget::new(limit, config.decision_makers.len(), recording, inherited_calls);
        let budget = budget.map(Arc::new);
        let limiter = RateLimiter::new(RateLimit::new(MAX_CONCURRENT_CALLS));
        let agents = config.agents();
        let ids: BTreeSet<ModelId> =
            agents.iter().map(|(group, agent_id)| choice.model(config, *group, agent_id)).collect();
        let recording = redact_api_keys(recording.clone(), &ids);
        let mut llms = BTreeMap::new();
        for id in ids {
            let bare = match model_override.filter(|_| !recording.is_replay()) {
                Some(model_override) => {
                    Llm::new(ModelAlias { id: id.clone(), inner: model_override.clone() })
                }
                None => choice.build_model(&id, &recording, call_limits.timeouts)?,
            };
            let model = if recording.is_replay() {
                LayeredModel {
                    #[cfg(feature = "cluster")]
                    limited: bare.clone(),
                    turns: bare.clone(),
                    others: bare,
                }
            } else {
                with_layers(bare, &limiter, budget.as_ref(), &recording, &call_limits.backoff)
            };
            llms.insert(id, model);
        }
        Ok(Self {
            config: config.clone(),
            choice,
            llms,
            budget,
            #[cfg(feature = "cluster")]
            shared_budget: None,
            #[cfg(feature = "cluster")]
            backoff: call_limits.backoff.clone(),
            recording,
            unrecorded_call: OnceLock::new(),
            storage_failure: OnceLock::new(),
        })
    }

    /// Returns the same models with a budget that the workers of a run share. The limit on concurrent calls applies to
    /// the returned models and these models together.
    #[cfg(feature = "cluster")]
    pub(crate) fn with_shared_budget(&self, budget: SharedBudget) -> Self {
        let budget = Arc::new(budget);
        let layered = |limited: &Llm, calls| {
            let (inner, budget) = (limited.clone(), budget.clone());
            let llm = Llm::new(SharedBudgetModel { inner, budget, calls });
            llm.retry(self.backoff.clone()).record(&self.recording)
        };
        let llms = self.llms.iter().map(|(id, model)| {
            let limited = model.limited.clone();
            let turns = layered(&limited, Calls::Turns);
            let others = layered(&limited, Calls::Others);
            (id.clone(), LayeredModel { limited, turns, others })
        });
        Self {
            llms: llms.collect(),
            config: self.config.clone(),
            choice: self.choice.clone(),
            budget: None,
            shared_budget: Some(budget),
            backoff: self.backoff.clone(),
            recording: self.recording.clone(),
            unrecorded_call: OnceLock::new(),
            storage_failure: OnceLock::new(),
        }
    }

    /// Returns the choice of provider and model.
    pub fn choice(&self) -> &ModelChoice {
        &self.choice
    }

    pub(crate) fn call_settings(&self, group: Group, agent_id: &str) -> CallSettings {
        self.choice.call_settings(&self.config, group, agent_id)
    }

    /// Makes a call with the model of the call's agent.
    pub async fn call(&self, call: &ModelCall) -> CallOutcome {
        let id = self.choice.model(&self.config, call.group, &call.agent_id);
        let Some(model) = self.llms.get(&id) else {
            let reason = format!("no model is configured for agent `{}`", call.agent_id);
            return CallOutcome::Failed(CallFailure { kind: FailureKind::ModelFailed, reason });
        };
        let llm = match call.group {
            Group::Critic | Group::DecisionMakers | Group::Summaries => &model.turns,
            _ => &model.others,
        };
        // Asks for a stream, so that a slow answer does not exceed the time limit for the first byte.
        let mut ignore_piece = |_| {};
        let mut listener = Listener::new(&mut ignore_piece);
        let outcome = llm.call(&call.request, &mut listener).await;
        // The caller stores the outcome in the database, and a resumed run does not make the call again. So that a
        // power failure cannot leave a recording without the call, the recording is synced first.
        if let Err(reason) = self.sync_recording().await {
            return self.not_stored(reason);
        }
        let error = match outcome {
            Ok(response) => {
                let mut answer = to_answer(call, &id, &response);
                // The text of the answer is also stored in threads, events and files, so secrets are redacted here too.
                answer.text = self.recording.redacted(answer.text);
                return match unusable::problem(&call.request, &answer.text) {
                    None => CallOutcome::Answered(answer),
                    Some(problem) => {
                        let reason = format!("{id}: {problem}");
                        CallOutcome::Failed(CallFailure { kind: FailureKind::Unusable, reason })
                    }
                };
            }
            Err(error) => error,
        };
        let reason = self.recording.redacted(error.to_string());
        let kind = match error.kind {
            ErrorKind::Budget => FailureKind::BudgetExhausted,
            ErrorKind::RequestTooLong => FailureKind::TooLong,
            ErrorKind::NotRecorded => {
                self.unrecorded_call.get_or_init(|| reason.clone());
                FailureKind::NotRecorded
            }
            ErrorKind::File if self.recording.has_write_failed() => return self.not_stored(reason),
            _ => FailureKind::ModelFailed,
        };
        CallOutcome::Failed(CallFailure { kind, reason })
    }

    /// Waits until all calls that were recorded so far are on the disk.
    async fn sync_recording(&self) -> Result<(), String> {
        let recording = self.recording.clone();
        let synced = tokio::task::spawn_blocking(move || recording.sync());
        let synced = synced.await.map_err(|error| error.to_string())?;
        synced.map_err(|error| error.to_string())
    }

    fn not_stored(&self, reason: String) -> CallOutcome {
        self.storage_failure.get_or_init(|| reason.clone());
        CallOutcome::Failed(CallFailure { kind: FailureKind::NotStored, reason })
    }

    /// Returns the error of the first call that a replay did not find in its recording.
    pub(crate) fn unrecorded_call(&self) -> Option<&str> {
        self.unrecorded_call.get().map(String::as_str)
    }

    /// Returns the error of the first call that could not be written to the recording or synced to the disk.
    pub(crate) fn storage_failure(&self) -> Option<&str> {
        self.storage_failure.get().map(String::as_str)
    }

    /// Divides the remaining budget among the debates about these moves.
    pub(crate) async fn share_budget(&self, moves: &[MoveId]) {
        if let Some(budget) = &self.budget {
            budget.share(moves.iter().copied());
        }
        #[cfg(feature = "cluster")]
        if let Some(budget) = &self.shared_budget {
            budget.share(moves).await;
        }
    }

    /// Returns the unspent share of a debate on a cluster to the other debates. In a local run, [`ScoringReserve`]
    /// returns it.
    #[cfg(feature = "cluster")]
    pub(crate) async fn end_debate(&self, move_id: MoveId) {
        if let Some(budget) = &self.shared_budget {
            budget.end_debate(move_id).await;
        }
    }

    /// Reserves budget for the scoring of a debate until the returned guard is dropped. Then returns the unspent share
    /// of the debate to the other debates.
    pub(crate) fn reserve_scoring(&self, move_id: MoveId) -> ScoringReserve<'_> {
        if let Some(budget) = &self.budget {
            budget.debate_started();
        }
        ScoringReserve { budget: self.budget.as_deref(), move_id }
    }

    /// Returns how much of the budget is used, in percent. Returns `None` if the run has no budget.
    pub(crate) fn budget_used_percent(&self) -> Option<u64> {
        #[cfg(feature = "cluster")]
        if let Some(budget) = &self.shared_budget {
            return Some(budget.used_percent());
        }
        self.budget.as_ref()?.used_percent()
    }
}

/// Configures a recording to redact the API keys of all providers in use.
fn redact_api_keys(recording: Recording, ids: &BTreeSet<ModelId>) -> Recording {
    let providers: BTreeSet<&str> = ids.iter().map(|it| it.provider.as_str()).collect();
    let keys = providers.into_iter().filter_map(|it| Provider::new(it).ok()?.effective_key());
    let keys = keys.filter(|it| is_redacted(it.expose_secret()));
    keys.fold(recording, |recording, key| recording.hide(key.expose_secret()))
}

/// Wraps a model in layers. From the inside out, the layers are the rate limiter, the budget, retries, the shares of
/// the debates in the budget, and the recording.
fn with_layers(
    bare: Llm,
    limiter: &RateLimiter,
    budget: Option<&Arc<RunBudget>>,
    recording: &Recording,
    backoff: &Backoff,
) -> LayeredModel {
    let limited = bare.rate_limit(limiter);
    let Some(budget) = budget else {
        let llm = limited.clone().retry(backoff.clone()).record(recording);
        return LayeredModel {
            #[cfg(feature = "cluster")]
            limited,
            turns: llm.clone(),
            others: llm,
        };
    };
    let inner = limited.clone().budget(budget.shared()).retry(backoff.clone());
    let layered = |calls| {
        let (inner, budget) = (inner.clone(), budget.clone());
        Llm::new(BudgetedModel { inner, budget, calls }).record(recording)
    };
    LayeredModel {
        #[cfg(feature = "cluster")]
        limited,
        turns: layered(Calls::Turns),
        others: layered(Calls::Others),
    }
}

/// Budget reserved for the scoring of one debate.
#[derive(Debug)]
pub(crate) struct ScoringReserve<'a> {
    budget: Option<&'a RunBudget>,
    move_id: MoveId,
}

impl Drop for ScoringReserve<'_> {
    fn drop(&mut self) {
        if let Some(budget) = self.budget {
            budget.debate_ended(self.move_id);
        }
    }
}

fn to_answer(call: &ModelCall, id: &ModelId, response: &Response) -> Answer {
    let tokens = response.usage.unwrap_or_default();
    let catalog_price = || Catalog::builtin().entry(id)?.cost(response.usage.as_ref()?);
    let usage = CallUsage {
        agent_id: call.agent_id.clone(),
        group: call.group,
        model: id.to_string(),
        move_id: call.move_id.clone(),
        round: call.round,
        input: tokens.input,
        cached: tokens.cached,
        output: tokens.output,
        cost: response.cost.or_else(catalog_price),
    };
    let is_cut = response.finish == Finish::Length;
    Answer { text: response.text(), is_cut, usage }
}

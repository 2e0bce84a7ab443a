//! The graph of each arm. A trial is one thread of such a graph, so a resumed ablation repeats no answered call.
//!
//! ```text
//! one call, placebo           START → judge → END
//! self-consistency            START → sample ⟲ → vote → END
//! isolated self-critique      START → self_critique → judge → END
//! one critique and a judge    START → critique → judge → END
//! debates                     START → critique → defend ⇄ critique … → judge → END
//! ```

use std::sync::{Arc, OnceLock};

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, END, NodeError, Route, START, State,
    StateGraph,
};
use llm::Request;
use sha2::{Digest, Sha256};

use super::{
    arm::Arm,
    prompts::{self, Reading},
    script::{Role, ScriptedCall},
    settings::OTHER_CRITIC,
    trial::Trial,
    verdict::Verdict,
};
use crate::{
    call::{Answer, CallFailure, CallOutcome, CallUsage, FailureKind, LLM, ModelCall},
    config::{Config, Group, Persona},
    fence::Fence,
    models::Models,
    prompt,
    transcript::{ConversationEntry, Speaker, rounds, whole},
};

/// Maximum number of verdicts in [`Arm::SelfConsistency`].
const MAX_SAMPLES: usize = 50;

#[derive(State, Clone, Debug, Default)]
pub(super) struct TrialState {
    pub(super) trial: Trial,
    /// The debate or the critique. In [`Arm::Placebo`], the debate about another move, which is part of the input.
    #[reduce(append)]
    pub(super) log: Vec<ConversationEntry>,
    /// The verdicts among which the majority decides.
    #[reduce(append)]
    pub(super) samples: Vec<Verdict>,
    /// Tokens and cost of every call.
    #[reduce(append)]
    pub(super) calls: Vec<CallUsage>,
    pub(super) verdict: Option<Verdict>,
}

impl TrialState {
    fn tokens(&self) -> u64 {
        self.calls.iter().map(|it| it.input + it.output).sum()
    }
}

/// Dependencies of the nodes.
#[derive(Debug)]
pub(super) struct TrialDeps {
    pub(super) config: Config,
    pub(super) models: Models,
    /// Random part of the tags around untrusted text.
    pub(super) nonce: String,
    /// Failure after which no other call can succeed.
    pub(super) fatal: OnceLock<CallFailure>,
}

impl TrialDeps {
    fn maker(&self) -> Result<&Persona, NodeError> {
        let first = self.config.decision_makers.first();
        first.ok_or_else(|| NodeError::terminal("the configuration has no decision maker"))
    }
}

type Deps = Arc<TrialDeps>;

/// Builds the graph of an arm.
pub(super) fn graph(
    arm: Arm,
    saver: Arc<dyn Checkpointer>,
) -> Result<CompiledGraph<TrialState, Deps>, BuildError> {
    let graph = StateGraph::<TrialState, Deps>::new().name(format!("ablate {arm}"));
    let graph = match arm {
        Arm::OneCall | Arm::Placebo => graph.node(judge).edge(START, judge).edge(judge, END),
        Arm::SelfConsistency => graph
            .node(sample)
            .node(vote)
            .edge(START, sample)
            .branch(sample, has_tokens_left)
            .edge(vote, END),
        Arm::SelfCritique => graph
            .node(self_critique)
            .node(judge)
            .edge(START, self_critique)
            .edge(self_critique, judge)
            .edge(judge, END),
        Arm::Critique => graph
            .node(critique)
            .node(judge)
            .edge(START, critique)
            .edge(critique, judge)
            .edge(judge, END),
        Arm::Debate1 | Arm::Debate3 | Arm::Debate10 | Arm::Mixed => graph
            .node(critique)
            .node(defend)
            .node(judge)
            .edge(START, critique)
            .edge(critique, defend)
            .branch(defend, has_rounds_left)
            .edge(judge, END),
    };
    graph.shared_checkpointer(saver).compile()
}

#[derive(Route)]
enum AfterSample {
    #[to(sample)]
    Again,
    #[to(vote)]
    Vote,
}

/// Selects another verdict as long as it brings the number of tokens closer to the target.
fn has_tokens_left(state: &TrialState) -> AfterSample {
    let n = state.samples.len();
    let half_a_sample = state.tokens() / (2 * n.max(1) as u64);
    let is_below = state.tokens() + half_a_sample < state.trial.target_tokens;
    if is_below && n < MAX_SAMPLES { AfterSample::Again } else { AfterSample::Vote }
}

#[derive(Route)]
enum AfterDefence {
    #[to(critique)]
    AnotherRound,
    #[to(judge)]
    Judge,
}

fn has_rounds_left(state: &TrialState) -> AfterDefence {
    let round = state.log.last().map_or(0, |it| it.round);
    if round < state.trial.arm.rounds() { AfterDefence::AnotherRound } else { AfterDefence::Judge }
}

/// Asks the critic for its opening or for a reply to the decision maker.
async fn critique(state: &TrialState, cx: &Context<Deps>) -> Result<TrialStateUpdate, NodeError> {
    let (brief, config) = (&state.trial.case.brief, &cx.deps().config);
    let round = state.log.last().map_or(0, |it| it.round) + 1;
    let maker = cx.deps().maker()?;
    let fence = fence(state, cx);
    let request = if state.log.is_empty() {
        prompt::critic_opening(&config.critic, brief, &fence)
    } else {
        let rounds = rounds(&state.log);
        prompt::critic_reply(&config.critic, brief, &fence, maker, &whole(&rounds), round)
    };
    let (role, agent_id) = match state.trial.arm {
        Arm::Mixed => (Role::OtherCritic, OTHER_CRITIC),
        _ => (Role::Critic, config.critic.id.as_str()),
    };
    let answer = call(state, cx, Group::Critic, agent_id, role, round, "turn", request).await?;
    Ok(turn(Speaker::Critic, round, answer))
}

/// Asks the decision maker for an answer to the critic.
async fn defend(state: &TrialState, cx: &Context<Deps>) -> Result<TrialStateUpdate, NodeError> {
    let round = state.log.last().map_or(1, |it| it.round);
    let maker = cx.deps().maker()?;
    let rounds = rounds(&state.log);
    let brief = &state.trial.case.brief;
    let request = prompt::maker_reply(maker, brief, &fence(state, cx), &whole(&rounds), round);
    let group = Group::DecisionMakers;
    let answer = call(state, cx, group, &maker.id, Role::Defender, round, "turn", request).await?;
    Ok(turn(Speaker::DecisionMaker(maker.id.clone()), round, answer))
}

/// Asks the decision maker for a critique in a separate conversation.
async fn self_critique(
    state: &TrialState,
    cx: &Context<Deps>,
) -> Result<TrialStateUpdate, NodeError> {
    let maker = cx.deps().maker()?;
    let request = prompts::self_critique(maker, &state.trial.case.brief, &fence(state, cx));
    let (group, role) = (Group::DecisionMakers, Role::SelfCritic);
    let answer = call(state, cx, group, &maker.id, role, 1, "turn", request).await?;
    Ok(turn(Speaker::Critic, 1, answer))
}

fn turn(role: Speaker, round: u32, answer: Answer) -> TrialStateUpdate {
    let entry = ConversationEntry { role, content: answer.text, round };
    TrialState::update().log([entry]).calls([answer.usage])
}

/// Asks the decision maker for one of several verdicts.
async fn sample(state: &TrialState, cx: &Context<Deps>) -> Result<TrialStateUpdate, NodeError> {
    let (verdict, calls) = request_verdict(state, cx, Reading::Nothing).await?;
    Ok(TrialState::update().samples([verdict]).calls(calls))
}

/// Decides by majority.
async fn vote(state: &TrialState) -> TrialStateUpdate {
    TrialState::update().verdict(Some(Verdict::majority(&state.samples)))
}

/// Asks the decision maker for the verdict.
async fn judge(state: &TrialState, cx: &Context<Deps>) -> Result<TrialStateUpdate, NodeError> {
    let reading = match (state.trial.arm, state.log.first()) {
        (Arm::SelfCritique | Arm::Critique, Some(critique)) => Reading::Critique(&critique.content),
        (_, Some(_)) => Reading::Debate(&state.log),
        (_, None) => Reading::Nothing,
    };
    let (verdict, calls) = request_verdict(state, cx, reading).await?;
    Ok(TrialState::update().verdict(Some(verdict)).calls(calls))
}

/// Asks for a verdict. If the answer cannot be parsed, asks a second time.
async fn request_verdict(
    state: &TrialState,
    cx: &Context<Deps>,
    reading: Reading<'_>,
) -> Result<(Verdict, Vec<CallUsage>), NodeError> {
    let maker = cx.deps().maker()?;
    let request = prompts::verdict(maker, &state.trial.case.brief, &fence(state, cx), reading);
    let number = state.samples.len() as u32 + 1;
    let ask = |key: &'static str, request: Request| {
        call(state, cx, Group::Scoring, &maker.id, Role::Judge, number, key, request)
    };
    let answer = ask("verdict", request.clone()).await?;
    let mut calls = vec![answer.usage];
    let mut verdict = Verdict::read(&answer.text);
    if verdict.is_none() {
        let again = prompts::verdict_again(&request, &answer.text);
        let answer = ask("verdict again", again).await?;
        verdict = Verdict::read(&answer.text);
        calls.push(answer.usage);
    }
    Ok((verdict.unwrap_or_else(Verdict::unread), calls))
}

/// Returns the tags around untrusted text. They differ between trials and between the verdicts of a trial, so that no
/// two requests are equal: equal requests would be answered from the recording when an ablation is resumed.
fn fence(state: &TrialState, cx: &Context<Deps>) -> Fence {
    let (name, sample) = (state.trial.name(), state.samples.len());
    let digest = Sha256::digest(format!("{} {name} {sample}", cx.deps().nonce).as_bytes());
    Fence::new(&hex::encode(&digest[..8]))
}

/// Makes a model call. The answer is stored in the journal of the thread. A failed call fails the trial, which then
/// continues at this call when the ablation is resumed.
#[expect(clippy::too_many_arguments, reason = "the parts of one call")]
async fn call(
    state: &TrialState,
    cx: &Context<Deps>,
    group: Group,
    agent_id: &str,
    role: Role,
    number: u32,
    key: &str,
    request: Request,
) -> Result<Answer, NodeError> {
    let TrialDeps { models, fatal, .. } = &**cx.deps();
    let mut settings = models.call_settings(group, agent_id);
    if group == Group::Scoring {
        // The pipeline requests scores at temperature 0, at which all repeats would be equal.
        settings.temperature = models.call_settings(Group::DecisionMakers, agent_id).temperature;
    }
    let scripted = ScriptedCall::new(&state.trial, role, number, &state.log);
    let request = settings.apply(request).attach(scripted);
    let call = ModelCall {
        agent_id: agent_id.to_owned(),
        group,
        move_id: Some(state.trial.case.brief.move_id.clone()),
        round: number,
        reply_to: None,
        request,
    };
    cx.task(LLM.kind(), key, async {
        match models.call(&call).await {
            CallOutcome::Answered(answer) => Ok(answer),
            CallOutcome::Failed(failure) => {
                let reason = failure.reason.clone();
                if failure.kind == FailureKind::BudgetExhausted || failure.kind.ends_run() {
                    fatal.get_or_init(|| failure);
                }
                Err(NodeError::terminal(reason))
            }
        }
    })
    .await
}

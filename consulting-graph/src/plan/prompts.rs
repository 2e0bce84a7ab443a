//! Builds the prompts of a run, with filler in place of model output.

use llm::{
    Request,
    overflow::{Entry, Round},
};

use super::assumptions::{Assumptions, Sizes};
use crate::{
    config::{Config, Group, Persona},
    data::{Subject, Ticker},
    fence::Fence,
    finding::{FindingsDraft, Inference, MAX_PER_DOCUMENT},
    moves::MovesDraft,
    prompt::{self, Brief},
    score::request_schema,
    transcript::{CRITIC, whole},
};

/// Average number of characters per token in English prose. Budget checks use a lower, more cautious value.
pub(super) const CHARS_PER_TOKEN: u64 = 4;

/// A sequence of calls, each of which extends the prompt of the call before.
pub(super) struct Conversation {
    /// How often this conversation takes place in a run.
    pub(super) times: u64,
    pub(super) calls: Vec<Call>,
}

pub(super) struct Call {
    pub(super) group: Group,
    /// Id of the persona.
    pub(super) who: String,
    pub(super) request: Request,
    /// Length of the answer in tokens.
    pub(super) output: u64,
}

impl Call {
    fn new(config: &Config, group: Group, who: &Persona, request: Request, output: u64) -> Self {
        let most = u64::from(config.model(group, &who.id).max_tokens);
        Self { group, who: who.id.clone(), request, output: output.min(most) }
    }

    /// Returns the role under which the plan lists this call.
    pub(super) fn role(&self) -> String {
        match self.group {
            Group::DecisionMakers => self.who.clone(),
            group => group.name().to_owned(),
        }
    }
}

/// Returns all model calls that a run makes.
pub(super) fn conversations(config: &Config, assumed: &Assumptions) -> Vec<Conversation> {
    let fence = Fence::new("0123456789abcdef");
    let mut conversations = layers(config, &assumed.sizes, &fence);
    conversations
        .extend(Debate { config, assumed, fence, brief: brief(&assumed.sizes) }.conversations());
    conversations
}

fn ticker() -> Ticker {
    Ticker::parse("NVDA").expect("a valid ticker")
}

/// Returns the calls that are made before the debates. Their prompts share no prefix.
fn layers(config: &Config, sizes: &Sizes, fence: &Fence) -> Vec<Conversation> {
    let (synthesizers, inferences) = (&config.synthesizers, &config.inferences);
    let (ticker, data) = (ticker(), filler(sizes.data));
    let (document, findings) = (filler(sizes.document), filler(sizes.findings));
    let mut calls = Vec::new();
    for (who, subject) in
        [(&synthesizers.financial, Subject::Financial), (&synthesizers.news, Subject::Trend)]
    {
        let request = prompt::synthesizer(who, &ticker, subject, &data, fence);
        calls.push(Call::new(config, Group::Synthesizers, who, request, sizes.document));
    }
    for (who, inference) in [(&inferences.f1, Inference::F1), (&inferences.f2, Inference::F2)] {
        let request = prompt::inference(who, &ticker, inference, &document, None, fence);
        let request = request.schema(FindingsDraft::schema(MAX_PER_DOCUMENT));
        calls.push(Call::new(config, Group::Inferences, who, request, sizes.findings));
    }
    let per_analyst = config.moves_per_analyst;
    for who in &config.analysts {
        let request = prompt::analyst(who, &ticker, per_analyst, &findings, &findings, fence);
        let request = request.schema(MovesDraft::schema(per_analyst));
        let output = sizes.the_move * u64::from(per_analyst);
        calls.push(Call::new(config, Group::Analysts, who, request, output));
    }
    calls.into_iter().map(|it| Conversation { times: 1, calls: vec![it] }).collect()
}

fn brief(sizes: &Sizes) -> Brief {
    Brief {
        ticker: ticker().to_string(),
        move_id: "m10".to_owned(),
        document: filler(sizes.the_move - sizes.the_move / 4),
        evidence: filler(sizes.the_move / 4),
    }
}

/// The debate about one move. All debates are assumed to have the same length.
struct Debate<'a> {
    config: &'a Config,
    assumed: &'a Assumptions,
    fence: Fence,
    brief: Brief,
}

impl Debate<'_> {
    fn conversations(&self) -> Vec<Conversation> {
        let times = self.config.moves();
        let makers = &self.config.decision_makers;
        let critic = makers.iter().enumerate().map(|(n, it)| self.critic(it, n == 0));
        let own = makers.iter().map(|it| self.maker(it));
        critic.chain(own).map(|calls| Conversation { times, calls }).collect()
    }

    /// Returns the critic's calls in the conversation with one decision maker. All conversations about a move share the
    /// opening, so it is included only if `is_first` is true.
    fn critic(&self, maker: &Persona, is_first: bool) -> Vec<Call> {
        let Self { config, fence, brief, .. } = self;
        let critic = &config.critic;
        let opening = || prompt::critic_opening(critic, brief, fence);
        let reply = |round: u32| {
            let log = self.log(maker, round, 0);
            prompt::critic_reply(critic, brief, fence, maker, &whole(&log), round)
        };
        let opening = is_first.then(opening);
        let requests = opening.into_iter().chain((2..=config.rounds).map(reply));
        let turn = self.assumed.sizes.turn;
        requests.map(|it| Call::new(config, Group::Critic, critic, it, turn)).collect()
    }

    /// Returns a decision maker's calls, including the scoring call.
    fn maker(&self, maker: &Persona) -> Vec<Call> {
        let Self { config, assumed, fence, brief } = self;
        let metrics = config.metric_ids();
        let scoring = |request: Request| {
            let request = request.schema(request_schema(&metrics));
            Call::new(config, Group::Scoring, maker, request, assumed.sizes.scores)
        };
        let turn = |round: u32| {
            let log = self.log(maker, round, 1);
            let request = prompt::maker_reply(maker, brief, fence, &whole(&log), round);
            Call::new(config, Group::DecisionMakers, maker, request, assumed.sizes.turn)
        };
        let mut calls = Vec::new();
        if assumed.baseline {
            calls.push(scoring(prompt::baseline(maker, brief, fence, &config.metrics)));
        }
        calls.extend((1..=config.rounds).map(turn));
        let (rounds, log) = (config.rounds, self.log(maker, config.rounds, 2));
        let (log, metrics) = (whole(&log), &config.metrics);
        calls.push(scoring(prompt::score(maker, brief, fence, &log, metrics, rounds)));
        calls
    }

    /// Returns the debate log up to round `last`. Of that round, the log contains only the first `turns` turns: none,
    /// the critic's turn, or both turns.
    fn log(&self, maker: &Persona, last: u32, turns: usize) -> Vec<Round> {
        let text = filler(self.assumed.sizes.turn);
        let round = |number: u32| {
            let speakers = [CRITIC, &maker.id];
            let heard = if number == last { turns } else { speakers.len() };
            let entries = speakers.iter().take(heard).map(|it| Entry::new(*it, &*text));
            Round::new(number, entries.collect())
        };
        (1..=last).map(round).collect()
    }
}

fn filler(tokens: u64) -> String {
    "x".repeat(usize::try_from(tokens * CHARS_PER_TOKEN).unwrap_or(usize::MAX))
}

//! Who answers the calls of a run: models, behind retries, a rate gate, a budget and a recording.

mod choose;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use llm::{
    Backoff, Budget, Catalog, ErrorKind, Gate, Llm, ModelId, Money, Pace, Recording, Response,
    overflow::Window,
};

use crate::{
    ask::{Ask, Heard, Paid, Said, Silence, Voice},
    config::{Config, Group},
};

pub use choose::{Choice, ChoiceError};

/// Calls of one provider at once.
pub(crate) const AT_ONCE: usize = 16;

/// What a run may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Tokens, in and out together.
    pub tokens: Option<u64>,
    /// Money.
    pub money: Option<Money>,
}

/// The models of a run.
#[derive(Debug)]
pub struct Models {
    config: Config,
    choice: Choice,
    /// Each model once, with its layers.
    llms: BTreeMap<ModelId, Llm>,
    budget: Option<Budget>,
    limit: Limit,
    /// Debates under way: for each, its scoring is held back from the budget.
    open: AtomicU64,
}

impl Models {
    /// Makes the models that a configuration names, for a run whose calls this recording keeps.
    pub fn new(
        config: &Config,
        choice: Choice,
        limit: Limit,
        recording: &Recording,
    ) -> Result<Self, ChoiceError> {
        let budget = match (limit.tokens, limit.money) {
            (None, None) => None,
            (Some(tokens), None) => Some(Budget::of_tokens(tokens)),
            (None, Some(money)) => Some(Budget::of_money(money)),
            (Some(tokens), Some(money)) => Some(Budget::of_both(tokens, money)),
        };
        let gate = Gate::new(Pace::new(AT_ONCE));
        let mut llms = BTreeMap::new();
        for (group, who) in config.speakers() {
            let id = choice.model(config, group, &who);
            if llms.contains_key(&id) {
                continue;
            }
            let mut llm = choice.make(&id, recording)?;
            if !recording.is_replay() {
                llm = llm.gate(&gate);
                if let Some(budget) = &budget {
                    llm = llm.budget(budget);
                }
                llm = llm.retry(Backoff::default()).record(recording);
            }
            llms.insert(id, llm);
        }
        let (config, open) = (config.clone(), AtomicU64::new(0));
        Ok(Self { config, choice, llms, budget, limit, open })
    }

    /// Who speaks.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// How someone's calls are made.
    pub fn voice(&self, group: Group, who: &str) -> Voice {
        self.choice.voice(&self.config, group, who)
    }

    /// Makes a call.
    pub async fn ask(&self, ask: &Ask) -> Heard {
        let id = self.choice.model(&self.config, ask.group, &ask.who);
        let Some(llm) = self.llms.get(&id) else {
            let why = format!("nobody plays `{}`", ask.who);
            return Heard::Silent(Silence { spent: false, why });
        };
        if let Some(why) = self.is_held_back(&id, ask) {
            return Heard::Silent(Silence { spent: true, why });
        }
        match llm.generate(ask.request.clone()).await {
            Ok(response) => Heard::Said(said(ask, &id, &response)),
            Err(error) => Heard::Silent(Silence {
                spent: error.kind == ErrorKind::Budget,
                why: error.to_string(),
            }),
        }
    }

    /// A debate begins: what its scoring can come to is held back until it ends.
    pub fn open_debate(&self) -> OpenDebate<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenDebate(self)
    }

    /// How much of the budget is spent, in hundredths; nothing without one.
    pub fn spent_percent(&self) -> Option<u64> {
        let spent = self.budget.as_ref()?.spent();
        let tokens = self.limit.tokens.map(|it| spent.tokens.saturating_mul(100) / it.max(1));
        let money = self.limit.money;
        let money = money.map(|it| spent.money.nanos().saturating_mul(100) / it.nanos().max(1));
        tokens.max(money)
    }

    /// Why a turn of a debate is not to be paid for any more: what is left is needed to score what is there.
    fn is_held_back(&self, id: &ModelId, ask: &Ask) -> Option<String> {
        if !matches!(ask.group, Group::Critic | Group::DecisionMakers) {
            return None;
        }
        let budget = self.budget.as_ref()?;
        let most = budget.most(id, &ask.request).ok()?;
        // A scoring call reads about what this call reads, and all decision maker's turns of the round come too.
        let makers = self.config.decision_makers.len() as u64;
        let calls = 1 + 2 * makers * self.open.load(Ordering::Relaxed).max(1);
        let spent = budget.spent();
        let tokens = spent.tokens.saturating_add(most.tokens.saturating_mul(calls));
        let nanos = most.money.nanos().saturating_mul(calls).saturating_add(spent.money.nanos());
        let over = self.limit.tokens.is_some_and(|it| tokens > it)
            || self.limit.money.is_some_and(|it| nanos > it.nanos());
        over.then(|| "what is left of the budget is kept for scoring".to_owned())
    }
}

/// A debate under way.
#[derive(Debug)]
pub struct OpenDebate<'a>(&'a Models);

impl Drop for OpenDebate<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn said(ask: &Ask, id: &ModelId, response: &Response) -> Said {
    let usage = response.usage.unwrap_or_default();
    let known = || Catalog::builtin().entry(id)?.cost(&usage);
    let paid = Paid {
        who: ask.who.clone(),
        group: ask.group,
        model: id.to_string(),
        move_id: ask.move_id.clone(),
        round: ask.round,
        input: usage.input,
        cached: usage.cached,
        output: usage.output,
        cost: response.cost.or_else(known),
    };
    Said { text: response.text(), paid }
}

impl Config {
    /// Everybody who speaks, as what.
    pub fn speakers(&self) -> Vec<(Group, String)> {
        let one = |group, it: &str| (group, it.to_owned());
        let mut speakers = vec![
            one(Group::Synthesizers, &self.synthesizers.financial.id),
            one(Group::Synthesizers, &self.synthesizers.news.id),
            one(Group::Inferences, &self.inferences.f1.id),
            one(Group::Inferences, &self.inferences.f2.id),
        ];
        speakers.extend(self.analysts.iter().map(|it| one(Group::Analysts, &it.id)));
        speakers.push(one(Group::Critic, &self.critic.id));
        for group in [Group::DecisionMakers, Group::Scoring] {
            speakers.extend(self.decision_makers.iter().map(|it| one(group, &it.id)));
        }
        speakers
    }
}

/// What a model can read, where the catalog knows it.
fn window(id: &ModelId) -> Option<Window> {
    Window::of(id.clone(), Catalog::builtin())
}

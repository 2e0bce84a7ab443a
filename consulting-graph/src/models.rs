//! Who answers the calls of a run: models, behind retries, a rate gate, a budget and a recording.

mod choose;
mod purse;
mod speaker;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use llm::{
    Backoff, Catalog, ErrorKind, ExposeSecret, Gate, Llm, ModelId, Pace, Provider, Recording,
    Response, overflow::Window,
};

use crate::{
    ask::{Ask, Heard, Paid, Said, Silence, Voice, Why},
    config::{Config, Group},
};

pub use choose::{Choice, ChoiceError};
pub use purse::Limit;
use purse::{Purse, Turns};
use speaker::SpeakingAs;

/// Calls of one provider at once.
pub(crate) const AT_ONCE: usize = 16;

/// The models of a run.
#[derive(Debug)]
pub struct Models {
    config: Config,
    choice: Choice,
    /// Each model once, with its layers.
    llms: BTreeMap<ModelId, Layered>,
    purse: Option<Arc<Purse>>,
    /// Knows what has to be kept out of everything that is written down.
    recording: Recording,
    /// The first call that a replay found no answer to.
    missed: OnceLock<String>,
    /// Why the first answer could not be written down that could not.
    not_kept: OnceLock<String>,
}

/// A model as it is asked.
#[derive(Debug)]
struct Layered {
    /// For turns of debates.
    turns: Llm,
    /// For everything else.
    others: Llm,
}

impl Models {
    /// Makes the models that a configuration names, for a run whose calls this recording keeps; a speaker speaks in
    /// place of them all. What the recording holds already is spent of the limit, except for the first so many calls,
    /// which were taken over.
    pub fn new(
        config: &Config,
        choice: Choice,
        speaker: Option<&Llm>,
        limit: Limit,
        recording: &Recording,
        taken_over: usize,
    ) -> Result<Self, ChoiceError> {
        let purse = Purse::new(limit, config.decision_makers.len(), recording, taken_over);
        let purse = purse.map(Arc::new);
        let gate = Gate::new(Pace::new(AT_ONCE));
        let speakers = config.speakers();
        let ids: BTreeSet<ModelId> =
            speakers.iter().map(|(group, who)| choice.model(config, *group, who)).collect();
        let recording = without_keys(recording.clone(), &ids);
        let mut llms = BTreeMap::new();
        for id in ids {
            let bare = match speaker.filter(|_| !recording.is_replay()) {
                Some(speaker) => Llm::new(SpeakingAs { id: id.clone(), speaker: speaker.clone() }),
                None => choice.make(&id, &recording)?,
            };
            let layered = if recording.is_replay() {
                Layered { turns: bare.clone(), others: bare }
            } else {
                layered(bare, &gate, purse.as_ref(), &recording)
            };
            llms.insert(id, layered);
        }
        let (config, missed, not_kept) = (config.clone(), OnceLock::new(), OnceLock::new());
        Ok(Self { config, choice, llms, purse, recording, missed, not_kept })
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
        let Some(layered) = self.llms.get(&id) else {
            let why = format!("nobody plays `{}`", ask.who);
            return Heard::Silent(Silence { kind: Why::Failed, why });
        };
        let llm = match ask.group {
            Group::Critic | Group::DecisionMakers => &layered.turns,
            _ => &layered.others,
        };
        let error = match llm.generate(ask.request.clone()).await {
            Ok(response) => {
                let mut said = said(ask, &id, &response);
                // What is said goes into threads, events and files, as the recording has it.
                said.text = self.recording.redacted(said.text);
                return Heard::Said(said);
            }
            Err(error) => error,
        };
        let why = self.recording.redacted(error.to_string());
        let kind = match error.kind {
            ErrorKind::Budget => Why::Spent,
            ErrorKind::NotRecorded => {
                self.missed.get_or_init(|| why.clone());
                Why::NotRecorded
            }
            ErrorKind::File if self.recording.is_broken() => {
                self.not_kept.get_or_init(|| why.clone());
                Why::NotKept
            }
            _ => Why::Failed,
        };
        Heard::Silent(Silence { kind, why })
    }

    /// What was asked that a replay's recording does not know, if anything was.
    pub fn missed(&self) -> Option<&str> {
        self.missed.get().map(String::as_str)
    }

    /// Why an answer could not be written down, if one could not.
    pub fn not_kept(&self) -> Option<&str> {
        self.not_kept.get().map(String::as_str)
    }

    /// A debate begins: what its scoring can come to is held back until it ends.
    pub fn open_debate(&self) -> OpenDebate<'_> {
        if let Some(purse) = &self.purse {
            purse.open();
        }
        OpenDebate(self.purse.as_deref())
    }

    /// How much of the budget is spent, in hundredths; nothing without one.
    pub fn spent_percent(&self) -> Option<u64> {
        self.purse.as_ref()?.spent_percent()
    }
}

/// The recording, with the keys hidden that the models' providers are asked with.
fn without_keys(recording: Recording, ids: &BTreeSet<ModelId>) -> Recording {
    let providers: BTreeSet<&str> = ids.iter().map(|it| it.provider.as_str()).collect();
    let keys = providers.into_iter().filter_map(|it| Provider::new(it).ok()?.key_in_use());
    keys.fold(recording, |recording, key| recording.hide(key.expose_secret()))
}

/// A model behind its layers, from the inside out.
fn layered(bare: Llm, gate: &Gate, purse: Option<&Arc<Purse>>, recording: &Recording) -> Layered {
    let gated = bare.gate(gate);
    let Some(purse) = purse else {
        let llm = gated.retry(Backoff::default()).record(recording);
        return Layered { turns: llm.clone(), others: llm };
    };
    let inner = gated.budget(purse.budget()).retry(Backoff::default());
    let turns = Llm::new(Turns { inner: inner.clone(), purse: purse.clone() });
    Layered { turns: turns.record(recording), others: inner.record(recording) }
}

/// A debate under way.
#[derive(Debug)]
pub struct OpenDebate<'a>(Option<&'a Purse>);

impl Drop for OpenDebate<'_> {
    fn drop(&mut self) {
        if let Some(purse) = self.0 {
            purse.close();
        }
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

impl Group {
    /// What someone is called who speaks as this.
    pub(crate) fn role(self, who: &str) -> String {
        match self {
            Self::Scoring => format!("{who} scoring"),
            _ => who.to_owned(),
        }
    }
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

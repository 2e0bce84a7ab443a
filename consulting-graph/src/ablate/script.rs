//! Scripted judges and critics of known skill, which check that the harness measures what it claims to measure.
//!
//! The scripted model knows the truth about each move and reports it with a given probability. The expected
//! sensitivity and specificity of each arm follow from these probabilities ([`Critics::planted`]), and the report
//! compares them with the measured values.

use std::time::Duration;

use llm::{ErrorKind, Llm, Reply, Request, Scripted};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{arm::Arm, flaw::FlawKind, trial::Trial};
use crate::{
    data::SeededRng,
    transcript::{ConversationEntry, Speaker},
};

/// Role in which the scripted model is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Judge,
    Critic,
    /// The critic of [`Arm::Mixed`].
    OtherCritic,
    /// The decision maker of [`Arm::SelfCritique`], which takes the part of the critic.
    SelfCritic,
    Defender,
}

/// A model call as typed data, which only the scripted model reads. Other models read the prompt.
#[derive(Debug)]
pub(super) struct ScriptedCall {
    trial: Trial,
    role: Role,
    /// Round of the debate, or number of the verdict.
    number: u32,
    /// The critic's last claim about the move of the trial. `None` if there is no debate about this move.
    last_claim: Option<Claim>,
}

/// The flaw that a critic reports. `Claim(None)` means that the critic reports that the move is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim(Option<FlawKind>);

/// Probabilities with which a scripted role finds flaws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// Probability of finding each kind of flaw, in the order of [`FlawKind::ALL`].
    pub detection: [f64; 4],
    /// Probability of finding a flaw in a sound move.
    pub false_alarm: f64,
}

impl Skill {
    fn detection(&self, kind: FlawKind) -> f64 {
        let index = FlawKind::ALL.iter().position(|it| *it == kind);
        index.map_or(0.0, |it| self.detection[it])
    }

    fn mean_detection(&self) -> f64 {
        self.detection.iter().sum::<f64>() / self.detection.len() as f64
    }
}

/// Sets of scripted critics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Critics {
    /// Critics that judge better than the decision maker, so that there is an effect to find
    #[default]
    Skilled,
    /// Critics that judge as well as the decision maker, so that there is no effect to find
    Equal,
}

/// The decision maker, which judges alone if there is no critique.
const JUDGE: Skill = Skill { detection: [0.45, 0.30, 0.50, 0.25], false_alarm: 0.10 };
const SELF_CRITIC: Skill = Skill { detection: [0.55, 0.40, 0.60, 0.35], false_alarm: 0.12 };
const CRITIC: Skill = Skill { detection: [0.90, 0.75, 0.85, 0.70], false_alarm: 0.12 };
const OTHER_CRITIC: Skill = Skill { detection: [0.95, 0.85, 0.90, 0.80], false_alarm: 0.10 };
/// Probability that a skilled critic finds a flaw in a later round if it found none before.
const LATER_DETECTION: f64 = 0.04;
/// Probability that a skilled critic withdraws a false claim in a later round.
const WITHDRAWAL: f64 = 0.10;

impl Critics {
    fn skill(self, role: Role) -> Skill {
        match (self, role) {
            (Self::Equal, _) | (_, Role::Judge | Role::Defender) => JUDGE,
            (Self::Skilled, Role::SelfCritic) => SELF_CRITIC,
            (Self::Skilled, Role::Critic) => CRITIC,
            (Self::Skilled, Role::OtherCritic) => OTHER_CRITIC,
        }
    }

    /// Returns the probabilities of a late detection and of a withdrawal in each round after the first.
    fn later(self) -> (f64, f64) {
        match self {
            Self::Skilled => (LATER_DETECTION, WITHDRAWAL),
            Self::Equal => (0.0, 0.0),
        }
    }

    /// Returns the expected sensitivity and specificity of an arm, if each kind of flaw is equally frequent.
    pub fn planted(self, arm: Arm) -> (f64, f64) {
        let role = match arm {
            Arm::OneCall | Arm::SelfConsistency | Arm::Placebo => Role::Judge,
            Arm::SelfCritique => Role::SelfCritic,
            Arm::Critique | Arm::Debate1 | Arm::Debate3 | Arm::Debate10 => Role::Critic,
            Arm::Mixed => Role::OtherCritic,
        };
        let skill = self.skill(role);
        let (late, withdrawal) = self.later();
        let later_rounds = f64::from(arm.rounds().saturating_sub(1));
        let missed = (1.0 - skill.mean_detection()) * (1.0 - late).powf(later_rounds);
        let alarms = skill.false_alarm * (1.0 - withdrawal).powf(later_rounds);
        (1.0 - missed, 1.0 - alarms)
    }

    /// Creates the scripted model. The same seed results in the same answers.
    pub(super) fn model(self, seed: u64, delay: Duration) -> Llm {
        let answer = move |request: &Request| match request.attached::<ScriptedCall>() {
            Some(call) => Reply::from(self.answer(call, seed)),
            None => Reply::failure(ErrorKind::BadRequest, "the call is not part of an ablation"),
        };
        Llm::new(Scripted::new("critics", answer).delay(delay))
    }

    fn answer(self, call: &ScriptedCall, seed: u64) -> String {
        let ScriptedCall { trial, role, number, last_claim } = call;
        let move_id = &trial.case.brief.move_id;
        let mut rng = SeededRng::from_text(&format!("{seed} {} {role:?} {number}", trial.name()));
        match role {
            Role::Judge => self.verdict(call, seed, &mut rng),
            Role::Defender => {
                format!("The move {move_id} remains the right decision. {}", padding(&mut rng))
            }
            Role::Critic | Role::OtherCritic | Role::SelfCritic => {
                let claim = match last_claim {
                    None => find_flaw(self.skill(*role), trial.case.flaw, &mut rng),
                    Some(last) => self.reconsider(*last, trial.case.flaw, &mut rng),
                };
                format!("{} {}", claim.text(move_id), padding(&mut rng))
            }
        }
    }

    /// Returns the critic's claim in a later round.
    fn reconsider(self, last: Claim, flaw: Option<FlawKind>, rng: &mut SeededRng) -> Claim {
        let (late, withdrawal) = self.later();
        match (last.0, flaw) {
            (None, Some(flaw)) if is_drawn(late, rng) => Claim(Some(flaw)),
            (Some(_), None) if is_drawn(withdrawal, rng) => Claim(None),
            _ => last,
        }
    }

    /// Returns the judge's verdict. It follows the critic's last claim about the move. Without a claim, the judge
    /// decides alone, and its decision is the same in all verdicts of a trial.
    fn verdict(self, call: &ScriptedCall, seed: u64, rng: &mut SeededRng) -> String {
        let mut own = SeededRng::from_text(&format!("{seed} {} judge", call.trial.name()));
        let look = || find_flaw(self.skill(Role::Judge), call.trial.case.flaw, &mut own);
        let Claim(found) = call.last_claim.unwrap_or_else(look);
        let score = if found.is_some() { rng.between(2, 6) } else { rng.between(5, 9) };
        let kind = found.map_or("none", FlawKind::name);
        let reason = padding(rng);
        json!({ "reason": reason, "flawed": found.is_some(), "kind": kind, "score": score })
            .to_string()
    }
}

impl ScriptedCall {
    pub(super) fn new(trial: &Trial, role: Role, number: u32, log: &[ConversationEntry]) -> Self {
        let critiques = log.iter().filter(|it| it.role == Speaker::Critic);
        let mut claims =
            critiques.filter_map(|it| Claim::read(&it.content, &trial.case.brief.move_id));
        Self { trial: trial.clone(), role, number, last_claim: claims.next_back() }
    }
}

impl Claim {
    fn text(self, move_id: &str) -> String {
        let name = self.0.map_or("nothing", FlawKind::name);
        format!("Found in {move_id}: {name}.")
    }

    /// Reads a claim about the move. Returns `None` if the text is about another move.
    fn read(text: &str, move_id: &str) -> Option<Self> {
        let rest = text.strip_prefix(&format!("Found in {move_id}: "))?;
        let name = rest.split('.').next().unwrap_or_default();
        Some(Self(FlawKind::parse(name)))
    }
}

/// Looks for a flaw with the given skill.
fn find_flaw(skill: Skill, flaw: Option<FlawKind>, rng: &mut SeededRng) -> Claim {
    Claim(match flaw {
        Some(flaw) => is_drawn(skill.detection(flaw), rng).then_some(flaw),
        None => is_drawn(skill.false_alarm, rng).then(|| {
            FlawKind::ALL[rng.between(0, FlawKind::ALL.len() as i64 - 1).unsigned_abs() as usize]
        }),
    })
}

/// Draws whether an event with this probability happens.
fn is_drawn(probability: f64, rng: &mut SeededRng) -> bool {
    (rng.next_u64() >> 11) as f64 / ((1_u64 << 53) as f64) < probability
}

/// Returns text of varying length, so that scripted answers have realistic numbers of tokens.
fn padding(rng: &mut SeededRng) -> String {
    const SENTENCE: &str = "The scripted model writes this sentence instead of an argument.";
    vec![SENTENCE; rng.between(3, 8).unsigned_abs() as usize].join(" ")
}

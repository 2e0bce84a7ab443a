//! Checks which settings a fork may change.

use super::{super::error::RunError, point::ForkPoint};
use crate::config::{Config, Group, Metric, Persona};

/// Rejects changes to settings that were already used before the fork point, because the fork would keep results that
/// do not match its configuration.
pub(super) fn check_settings(
    before: &Config,
    after: &Config,
    at: ForkPoint,
) -> Result<(), RunError> {
    let same = |group| model_settings(before, group) == model_settings(after, group);
    let gathering = before.synthesizers == after.synthesizers && same(Group::Synthesizers);
    let inferring = before.inferences == after.inferences && same(Group::Inferences);
    let proposing = before.analysts == after.analysts
        && before.moves_per_analyst == after.moves_per_analyst
        && same(Group::Analysts);
    let finished =
        [("synthesizers", gathering, 0), ("inferences", inferring, 1), ("analysts", proposing, 2)];
    let layer = match at {
        ForkPoint::Layer(number) => number,
        ForkPoint::Round { .. } => 3,
    };
    if let Some((name, _, layer_needed)) =
        finished.iter().find(|(_, same, layer_needed)| !same && layer > *layer_needed)
    {
        return Err(RunError::Setting {
            setting: (*name).to_owned(),
            problem: format!(
                "these agents had already finished before {at}; fork at layer_{layer_needed} instead"
            ),
        });
    }
    match at {
        ForkPoint::Round { round, .. } => check_debate(before, after, at, round),
        ForkPoint::Layer(_) => Ok(()),
    }
}

/// Rejects changes to decision makers, metrics and rounds that are incompatible with the debates that the fork keeps.
/// The fork may keep a debate completely or up to a round.
fn check_debate(
    before: &Config,
    after: &Config,
    at: ForkPoint,
    round: u32,
) -> Result<(), RunError> {
    let makers = |it: &Config| ids(&it.decision_makers, |it: &Persona| &it.id);
    let metrics = |it: &Config| ids(&it.metrics, |it: &Metric| &it.id);
    if round > before.rounds && after.rounds <= before.rounds {
        let rounds = before.rounds;
        let problem = format!("the run has no round {at}: its debates have rounds 1 to {rounds}");
        return Err(RunError::InvalidRequest(problem));
    }
    let (setting, problem) = if makers(before) != makers(after) {
        (
            "decision_makers",
            format!("the debates before {at} had other decision makers; fork at layer_2 instead"),
        )
    } else if metrics(before) != metrics(after) {
        ("metrics", format!("the debates before {at} had other metrics; fork at layer_2 instead"))
    } else if after.rounds < round - 1 {
        let completed = round - 1;
        (
            "rounds",
            format!(
                "rounds 1 to {completed} were complete before {at}; set at least {completed}, or fork earlier"
            ),
        )
    } else {
        return Ok(());
    };
    Err(RunError::Setting { setting: setting.to_owned(), problem })
}

fn ids<T>(all: &[T], id: impl Fn(&T) -> &String) -> Vec<String> {
    all.iter().map(|it| id(it).clone()).collect()
}

/// Returns the model settings of all agents in a group.
fn model_settings(config: &Config, group: Group) -> Vec<crate::config::ResolvedModel> {
    let agents = config.agents();
    let members = agents.iter().filter(|it| it.0 == group);
    members.map(|(group, agent_id)| config.model(*group, agent_id)).collect()
}

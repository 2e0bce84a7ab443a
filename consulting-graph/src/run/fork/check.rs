//! Which settings a fork may change.

use super::{Place, RunProblem};
use crate::config::{Config, Group, Metric, Persona};

/// Refuses changes of what was over by then: they would stand in the run's configuration and not have been true.
pub(super) fn check(then: &Config, now: &Config, at: Place) -> Result<(), RunProblem> {
    let same = |group| voices(then, group) == voices(now, group);
    let gathering = then.synthesizers == now.synthesizers && same(Group::Synthesizers);
    let inferring = then.inferences == now.inferences && same(Group::Inferences);
    let proposing = then.analysts == now.analysts
        && then.moves_per_analyst == now.moves_per_analyst
        && same(Group::Analysts);
    let settled =
        [("synthesizers", gathering, 0), ("inferences", inferring, 1), ("analysts", proposing, 2)];
    let layer = match at {
        Place::Layer(number) => number,
        Place::Round { .. } => 3,
    };
    if let Some((name, _, own)) = settled.iter().find(|(_, same, own)| !same && layer > *own) {
        return Err(RunProblem::Setting {
            setting: (*name).to_owned(),
            problem: format!("they had spoken before {at}; branch off at layer_{own}"),
        });
    }
    match at {
        Place::Round { round, .. } => check_debate(then, now, at, round),
        Place::Layer(_) => Ok(()),
    }
}

/// Debates that stay as they are, as a whole or up to a round, have these people, these metrics, and these rounds.
fn check_debate(then: &Config, now: &Config, at: Place, round: u32) -> Result<(), RunProblem> {
    let people = |it: &Config| ids(&it.decision_makers, |it: &Persona| &it.id);
    let metrics = |it: &Config| ids(&it.metrics, |it: &Metric| &it.id);
    if round > then.rounds && now.rounds <= then.rounds {
        let rounds = then.rounds;
        let problem = format!("there is no {at}: the run's debates have rounds 1 to {rounds}");
        return Err(RunProblem::NoPlace(problem));
    }
    let (setting, problem) = if people(then) != people(now) {
        ("decision_makers", format!("others debated before {at}; branch off at layer_2"))
    } else if metrics(then) != metrics(now) {
        ("metrics", format!("others were scored before {at}; branch off at layer_2"))
    } else if now.rounds < round - 1 {
        let held = round - 1;
        (
            "rounds",
            format!("{held} were over before {at}; give at least {held}, or branch off earlier"),
        )
    } else {
        return Ok(());
    };
    Err(RunProblem::Setting { setting: setting.to_owned(), problem })
}

fn ids<T>(all: &[T], id: impl Fn(&T) -> &String) -> Vec<String> {
    all.iter().map(|it| id(it).clone()).collect()
}

/// How everybody in a group speaks.
fn voices(config: &Config, group: Group) -> Vec<crate::config::Model> {
    let speakers = config.speakers();
    let own = speakers.iter().filter(|it| it.0 == group);
    own.map(|(group, who)| config.model(*group, who)).collect()
}

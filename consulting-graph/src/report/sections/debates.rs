//! Builds the section about the debates.

use app_support::plural::counted;

use super::{
    super::{
        document::{Block, Cell, Link, Row},
        evaluation::Report,
        objection::cites_findings,
    },
    scores::display_name,
};
use crate::{
    moves::MoveId,
    transcript::ConversationEntry,
    watch::{Observation, ObservationKind},
};

pub(super) fn debates(report: &Report) -> Vec<Block> {
    let outcome = &report.outcome;
    let mut blocks = vec![Block::Heading(2, "Debates".to_owned())];
    if outcome.logs.is_empty() {
        blocks.push(Block::Text("There were no debates.".to_owned()));
        return blocks;
    }
    blocks.push(Block::Legend(
        "In each debate the critic attacks one move and one decision maker defends it. Unanswered objection: a sentence \
         of the critic that cites findings, none of which the decision maker cites in a later turn; if there are \
         several, the one that most decision makers left unanswered; unknown if the critic cited no findings. The \
         directory logs/ has all transcripts."
            .to_owned(),
    ));
    let row =
        |(id, logs): (&MoveId, &std::collections::BTreeMap<String, Vec<ConversationEntry>>)| {
            let turns: usize = logs.values().map(Vec::len).sum();
            let objection = report.objections.iter().find(|it| it.move_id == *id);
            let objection = objection.map_or_else(
                || if cites_findings(logs) { "none" } else { "unknown" }.to_owned(),
                |it| {
                    format!("{} ({}, round {})", it.text, display_name(report, &it.maker), it.round)
                },
            );
            Row::new(vec![
                Cell::Links(vec![Link::to(&id.to_string(), &id.to_string())]),
                Cell::Text(turns.to_string()),
                Cell::Text(objection),
                Cell::Text(format!("logs/{id}/")),
            ])
        };
    let rows = outcome.logs.iter().map(row).collect();
    blocks.push(Block::rows(&["Move", "Turns", "Unanswered objection", "Transcripts"], rows));
    blocks.push(Block::PageOnly(
        outcome
            .logs
            .iter()
            .flat_map(|(id, logs)| {
                logs.iter().map(move |(name, log)| transcript(report, *id, name, log))
            })
            .collect(),
    ));
    blocks.extend(observations(report));
    blocks
}

fn transcript(report: &Report, id: MoveId, name: &str, log: &[ConversationEntry]) -> Block {
    let debate = report.outcome.place_with_names(name);
    let turns = log.iter().flat_map(|it| {
        let speaker = display_name(report, &it.role.to_string());
        [Block::Legend(format!("Round {}, {speaker}", it.round)), Block::Quote(it.content.clone())]
    });
    Block::Collapsed {
        title: format!("{id}, {debate}, {}", counted(log.len(), "turn", "turns")),
        blocks: turns.collect(),
    }
}

fn observations(report: &Report) -> Vec<Block> {
    if report.observations.is_empty() {
        return Vec::new();
    }
    let kind = |it| match it {
        ObservationKind::Capitulation => "conceded without new facts",
        ObservationKind::DisagreementCollapse => "two turns in a row added nothing new",
        ObservationKind::Repetition => "repeated an earlier turn",
    };
    let line = |it: &Observation| {
        vec![
            it.move_id.to_string(),
            report.outcome.place_with_names(&it.log),
            it.round.to_string(),
            display_name(report, &it.role.to_string()),
            kind(it.kind).to_owned(),
        ]
    };
    vec![
        Block::Heading(3, "Observations on the debates".to_owned()),
        Block::Legend(
            "Found by counting words, numbers and citations. Scores were not changed because of them.".to_owned(),
        ),
        Block::table(
            &["Move", "Debate", "Round", "Speaker", "Observation"],
            report.observations.iter().map(line).collect(),
        ),
    ]
}

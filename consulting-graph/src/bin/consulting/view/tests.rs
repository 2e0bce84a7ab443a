//! What a person sees, at some moments of a run.

use std::{collections::BTreeMap, time::Duration};

use consulting_graph::{
    event::{Layer, PipelineEvent, RoundStatus},
    score::MakerScore,
    spent::Spent,
};
use insta::assert_snapshot;
use llm::Money;

use super::{
    dashboard::{Cast, Dashboard},
    paint::{Size, paint},
    plain,
};

const WIDE: Size = Size { columns: 90, lines: 40 };

fn cast() -> Cast {
    Cast {
        ticker: "NVDA".to_owned(),
        run_id: "nvda-20261115-121630-4f1c".to_owned(),
        terms: "scripted model · SYNTHETIC DATA".to_owned(),
        rounds: 10,
        best_score: 120,
        top_k: 3,
        makers: ["D1", "D2", "D3"].map(str::to_owned).into(),
    }
}

fn agent(layer: u8, id: &str, persona: &str) -> PipelineEvent {
    let (agent_id, persona) = (id.to_owned(), persona.to_owned());
    PipelineEvent::AgentStart { layer: Layer::Number(layer), agent_id, persona }
}

fn made(layer: u8, id: &str, outputs: &[&str]) -> PipelineEvent {
    let outputs: Vec<String> = outputs.iter().map(|it| (*it).to_owned()).collect();
    let output = outputs.first().cloned().unwrap_or_default();
    let agent_id = id.to_owned();
    PipelineEvent::AgentComplete { layer: Layer::Number(layer), agent_id, output, outputs }
}

fn layer_done(layer: Layer, artifacts: &[&str]) -> PipelineEvent {
    PipelineEvent::layer_complete(layer, artifacts.iter().map(|it| (*it).to_owned()).collect())
}

fn ready(id: &str, title: &str) -> PipelineEvent {
    let (move_id, title, backend) = (id.to_owned(), title.to_owned(), "jail".to_owned());
    PipelineEvent::SandboxReady { move_id, title, backend, isolated: true }
}

fn round(id: &str, round: u32, status: RoundStatus, words: &str) -> PipelineEvent {
    let said = match words {
        "" => BTreeMap::new(),
        words => ["i1", "i2", "i3"].map(|it| (it.to_owned(), words.to_owned())).into(),
    };
    PipelineEvent::SandboxRound { move_id: id.to_owned(), round, status, said }
}

fn scored(id: &str, score: u32) -> PipelineEvent {
    let mut given = MakerScore::neutral(&[]);
    given.metrics.insert("impact".to_owned(), u8::try_from(score).unwrap());
    let breakdown = [("D1".to_owned(), given)].into();
    PipelineEvent::SandboxScored { move_id: id.to_owned(), score, breakdown }
}

/// The first layers of a run, whose third one fails in part.
fn layers() -> Vec<PipelineEvent> {
    let start = |layer| PipelineEvent::layer_start(Layer::Number(layer));
    vec![
        start(0),
        agent(0, "financial_synthesizer", "Financial data provider"),
        made(0, "financial_synthesizer", &["financial.md"]),
        layer_done(Layer::Number(0), &["financial.md", "news.md"]),
        start(1),
        layer_done(Layer::Number(1), &["F1.md", "F2.md"]),
        start(2),
        agent(2, "analyst_1", "Capital steward"),
        agent(2, "analyst_2", "Growth architect"),
        agent(2, "analyst_3", "Contrarian reader"),
        made(2, "analyst_1", &["m1.md", "m2.md", "m3.md"]),
        PipelineEvent::AgentFailed {
            layer: Layer::Number(2),
            agent_id: "analyst_3".to_owned(),
            reason: "the model did not answer\nafter 5 tries".to_owned(),
        },
    ]
}

/// What follows, up to the middle of the third debate.
fn debates() -> Vec<PipelineEvent> {
    vec![
        layer_done(Layer::Number(2), &["m1.md", "m2.md", "m3.md", "m4.md"]),
        PipelineEvent::layer_start(Layer::SANDBOX),
        ready("m1", "Sell the plant in Ohio and rent it back"),
        round("m1", 1, RoundStatus::CriticResponding, ""),
        scored("m1", 71),
        ready("m2", "Buy back shares for a tenth of the cash"),
        scored("m2", 88),
        ready("m3", "Open the software to every rival's chips, at a price that they cannot refuse"),
        round("m3", 4, RoundStatus::CriticResponded, "**Who pays?**\nNobody said."),
        round("m3", 4, RoundStatus::DmResponding, ""),
        round(
            "m3",
            4,
            RoundStatus::DmResponded,
            "\u{1b}[31mThe rivals pay: they have no choice, and the alternative is a market without them.",
        ),
        round("m3", 5, RoundStatus::CriticResponding, ""),
    ]
}

fn end() -> Vec<PipelineEvent> {
    let ids = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
    vec![
        scored("m3", 88),
        PipelineEvent::SandboxSkipped {
            move_id: "m4".to_owned(),
            reason: "it was not debated: the critic did not answer".to_owned(),
        },
        layer_done(Layer::SANDBOX, &["m1", "m2", "m3"]),
        PipelineEvent::PipelineComplete { recommended: ids(&["m2", "m3", "m1"]), other: ids(&[]) },
    ]
}

fn after(events: &[PipelineEvent]) -> Dashboard {
    let mut run = Dashboard::new(cast());
    for (second, event) in (0..).zip(events) {
        run.take(event, Duration::from_secs(second));
    }
    run.pay(Spent {
        calls: 139,
        input: 1_234_567,
        cached: 0,
        output: 45_678,
        money: Money::from_dollars(1.5),
    });
    run
}

fn shown(run: &Dashboard, seconds: u64, size: Size) -> String {
    let lines = paint(run, Duration::from_secs(seconds), size);
    lines.iter().map(|it| it.plain() + "\n").collect()
}

#[test]
fn the_layer_that_runs_shows_who_works() {
    assert_snapshot!(shown(&after(&layers()), 30, WIDE));
}

#[test]
fn a_debate_shows_its_round_and_the_moves_scored_so_far() {
    let events = [layers(), debates()].concat();
    assert_snapshot!(shown(&after(&events), 130, WIDE));
}

#[test]
fn the_end_shows_the_ranking_and_what_went_wrong() {
    let events = [layers(), debates(), end()].concat();
    assert_snapshot!(shown(&after(&events), 3900, WIDE));
}

#[test]
fn nothing_is_wider_or_longer_than_the_screen() {
    let run = after(&[layers(), debates()].concat());
    for (columns, lines) in [(40, 12), (20, 5), (200, 60), (1, 1)] {
        let painted = paint(&run, Duration::ZERO, Size { columns, lines });
        assert!(painted.len() <= lines, "{columns}x{lines}");
        assert!(painted.iter().all(|it| it.width() <= columns), "{columns}x{lines}");
    }
}

#[test]
fn debates_that_are_not_isolated_cannot_be_overlooked() {
    let mut run = after(&[layers(), debates()].concat());
    let (backend, reason) = ("in-process".to_owned(), "isolation is switched off".to_owned());
    run.take(&PipelineEvent::SandboxDegraded { backend, reason }, Duration::ZERO);
    let shown = shown(&run, 1, WIDE);
    assert!(shown.contains("NOT ISOLATED (in-process)"), "{shown}");
    assert!(shown.contains("\n !  NOT ISOLATED: "), "{shown}");
}

#[test]
fn the_time_left_follows_from_the_debates_so_far() {
    let mut run = after(&layers());
    run.take(&layer_done(Layer::Number(2), &["m1.md", "m2.md", "m3.md"]), Duration::ZERO);
    let at = |second| Duration::from_secs(second);
    run.take(&ready("m1", "One"), at(100));
    assert_eq!(run.remaining(at(110)), None);
    run.take(&scored("m1", 60), at(200));
    assert_eq!(run.remaining(at(200)), Some(at(200)));
}

#[test]
fn a_resumed_run_does_not_count_the_debates_of_last_time() {
    let mut run = Dashboard::new(cast());
    run.catch_up([layers(), debates()].concat().iter());
    assert_eq!(run.debates(), (2, 4));
    assert_eq!(run.remaining(Duration::from_secs(50)), None);
}

#[test]
fn without_a_screen_each_event_is_a_line() {
    let mut run = Dashboard::new(cast());
    let line = |event: &PipelineEvent| {
        run.take(event, Duration::ZERO);
        plain::line(&run, event) + "\n"
    };
    let text: String = [layers(), debates(), end()].concat().iter().map(line).collect();
    assert_snapshot!(text);
}

//! Tests of what the view shows at different points of a run.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use consulting_graph::{
    event::{Layer, PipelineEvent, RoundStatus},
    score::MakerScore,
    spending::Spending,
};
use insta::assert_snapshot;
use llm::Money;

use super::{
    LONG_WAIT, View, ViewMode,
    dashboard::{Dashboard, RunHeader},
    plain,
    render::{Size, render},
};
use sandbox_vm::report::IsolationLevel;

const WIDE: Size = Size { columns: 90, lines: 40 };

fn header() -> RunHeader {
    RunHeader {
        ticker: "NVDA".to_owned(),
        run_id: "nvda-20261115-121630-4f1c".to_owned(),
        description: "scripted model · SYNTHETIC DATA".to_owned(),
        rounds: 10,
        max_score: 120,
        top_k: 3,
        makers: ["D1", "D2", "D3"].map(str::to_owned).into(),
    }
}

fn agent_started(layer: u8, id: &str, persona: &str) -> PipelineEvent {
    let (agent_id, persona) = (id.to_owned(), persona.to_owned());
    PipelineEvent::AgentStart { layer: Layer::Number(layer), agent_id, persona }
}

fn agent_done(layer: u8, id: &str, outputs: &[&str]) -> PipelineEvent {
    let outputs: Vec<String> = outputs.iter().map(|it| (*it).to_owned()).collect();
    let output = outputs.first().cloned().unwrap_or_default();
    let agent_id = id.to_owned();
    PipelineEvent::AgentComplete { layer: Layer::Number(layer), agent_id, output, outputs }
}

fn layer_done(layer: Layer, artifacts: &[&str]) -> PipelineEvent {
    PipelineEvent::layer_end(layer, artifacts.iter().map(|it| (*it).to_owned()).collect(), &[])
}

fn sandbox_ready(id: &str, title: &str) -> PipelineEvent {
    let (move_id, title, backend) = (id.to_owned(), title.to_owned(), "jail".to_owned());
    PipelineEvent::SandboxReady { move_id, title, backend, isolation: IsolationLevel::Process }
}

fn round(id: &str, round: u32, status: RoundStatus, words: &str) -> PipelineEvent {
    let texts = match words {
        "" => BTreeMap::new(),
        words => ["i1", "i2", "i3"].map(|it| (it.to_owned(), words.to_owned())).into(),
    };
    PipelineEvent::SandboxRound { move_id: id.to_owned(), round, status, texts }
}

fn scored(id: &str, score: u32) -> PipelineEvent {
    let mut score_of_maker = MakerScore::neutral(&[]);
    score_of_maker.metrics.insert("impact".to_owned(), u8::try_from(score).unwrap());
    let breakdown = [("D1".to_owned(), score_of_maker)].into();
    PipelineEvent::SandboxScored { move_id: id.to_owned(), score, breakdown }
}

/// Returns the events of the first three layers, in which one analyst fails.
fn layers() -> Vec<PipelineEvent> {
    let start = |layer| PipelineEvent::layer_start(Layer::Number(layer));
    vec![
        start(0),
        agent_started(0, "financial_synthesizer", "Financial data provider"),
        agent_done(0, "financial_synthesizer", &["financial.md"]),
        layer_done(Layer::Number(0), &["financial.md", "news.md"]),
        start(1),
        layer_done(Layer::Number(1), &["F1.md", "F2.md"]),
        start(2),
        agent_started(2, "analyst_1", "Capital steward"),
        agent_started(2, "analyst_2", "Growth architect"),
        agent_started(2, "analyst_3", "Contrarian reader"),
        agent_done(2, "analyst_1", &["m1.md", "m2.md", "m3.md"]),
        PipelineEvent::AgentFailed {
            layer: Layer::Number(2),
            agent_id: "analyst_3".to_owned(),
            reason: "the model did not answer\nafter 5 tries".to_owned(),
        },
    ]
}

/// Returns the events up to the middle of the third debate.
fn debates() -> Vec<PipelineEvent> {
    vec![
        layer_done(Layer::Number(2), &["m1.md", "m2.md", "m3.md", "m4.md"]),
        PipelineEvent::layer_start(Layer::SANDBOX),
        sandbox_ready("m1", "Sell the plant in Ohio and rent it back"),
        round("m1", 1, RoundStatus::CriticResponding, ""),
        scored("m1", 71),
        sandbox_ready("m2", "Buy back shares for a tenth of the cash"),
        scored("m2", 88),
        sandbox_ready(
            "m3",
            "Open the software to every rival's chips, at a price that they cannot refuse",
        ),
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

fn final_events() -> Vec<PipelineEvent> {
    let ids = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
    vec![
        scored("m3", 88),
        PipelineEvent::SandboxSkipped {
            move_id: "m4".to_owned(),
            reason: "the move was not debated: the critic did not answer".to_owned(),
        },
        layer_done(Layer::SANDBOX, &["m1", "m2", "m3"]),
        PipelineEvent::PipelineComplete { recommended: ids(&["m2", "m3", "m1"]), other: ids(&[]) },
    ]
}

fn dashboard_after(events: &[PipelineEvent]) -> Dashboard {
    let mut run = Dashboard::new(header());
    for (second, event) in (0..).zip(events) {
        run.apply(event, Duration::from_secs(second));
    }
    run.set_spending(Spending {
        calls: 139,
        input: 1_234_567,
        cached: 0,
        output: 45_678,
        money: Money::from_dollars(1.5),
        unpriced_calls: 0,
    });
    run
}

fn rendered(run: &Dashboard, seconds: u64, size: Size) -> String {
    let lines = render(run, Duration::from_secs(seconds), size);
    lines.iter().map(|it| it.plain() + "\n").collect()
}

#[test]
fn a_running_layer_shows_its_agents() {
    assert_snapshot!(rendered(&dashboard_after(&layers()), 30, WIDE));
}

#[test]
fn a_running_debate_shows_its_round_and_the_ranking_so_far() {
    let events = [layers(), debates()].concat();
    assert_snapshot!(rendered(&dashboard_after(&events), 130, WIDE));
}

#[test]
fn a_complete_run_shows_the_ranking_and_warnings() {
    let events = [layers(), debates(), final_events()].concat();
    assert_snapshot!(rendered(&dashboard_after(&events), 3900, WIDE));
}

#[test]
fn the_view_fits_any_screen_size() {
    let run = dashboard_after(&[layers(), debates()].concat());
    for (columns, lines) in [(40, 12), (20, 5), (200, 60), (1, 1)] {
        let rendered = render(&run, Duration::ZERO, Size { columns, lines });
        assert!(rendered.len() <= lines, "{columns}x{lines}");
        assert!(rendered.iter().all(|it| it.width() <= columns), "{columns}x{lines}");
    }
}

#[test]
fn missing_isolation_is_shown_prominently() {
    let mut run = dashboard_after(&[layers(), debates()].concat());
    run.apply(&not_isolated(None), Duration::ZERO);
    let rendered = rendered(&run, 1, WIDE);
    assert!(rendered.contains("in-process (isolation: off, NOT ISOLATED)"), "{rendered}");
    assert!(rendered.contains("\n !  NOT ISOLATED: "), "{rendered}");
}

#[test]
fn one_debate_without_isolation_does_not_mark_the_others() {
    let mut run = dashboard_after(&[layers(), debates()].concat());
    let event = not_isolated(Some("m2"));
    run.apply(&event, Duration::ZERO);
    let (move_id, title, backend) = ("m2".to_owned(), "Two".to_owned(), "in-process".to_owned());
    let isolation = IsolationLevel::Off;
    let ready = PipelineEvent::SandboxReady { move_id, title, backend, isolation };
    run.apply(&ready, Duration::ZERO);
    let words = "m2 runs with in-process (isolation: off, NOT ISOLATED); no guest today";
    let line = plain::line(&run, &event);
    assert_eq!(line, format!("WARNING: {words}"));
    let rendered = rendered(&run, 1, WIDE);
    assert!(rendered.contains(words), "{rendered}");
    assert_eq!(rendered.matches("NOT ISOLATED").count(), 1, "{rendered}");
}

#[test]
fn a_narrow_terminal_shows_the_whole_command_for_vms() {
    let mut run = dashboard_after(&[layers(), debates()].concat());
    let reason = "for VMs, run `sudo usermod -aG kvm $USER` and log in again".to_owned();
    let (backend, isolation) = ("jail".to_owned(), IsolationLevel::Process);
    let event = PipelineEvent::SandboxDegraded { move_id: None, backend, isolation, reason };
    run.apply(&event, Duration::ZERO);
    let rendered = rendered(&run, 1, Size { columns: 60, lines: 40 });
    let words = rendered.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "! debates run with jail (isolation: process, shares the host's kernel); \
                    for VMs, run `sudo usermod -aG kvm $USER` and log in again";
    assert!(words.contains(expected), "{rendered}");
}

fn not_isolated(move_id: Option<&str>) -> PipelineEvent {
    PipelineEvent::SandboxDegraded {
        move_id: move_id.map(str::to_owned),
        backend: "in-process".to_owned(),
        isolation: IsolationLevel::Off,
        reason: "no guest today".to_owned(),
    }
}

#[test]
fn a_long_wait_is_announced_once() {
    let now = Instant::now();
    let mut view = View {
        run: dashboard_after(&layers()),
        meter: None,
        started: now,
        last_event: (now, false),
        mode: ViewMode::Lines,
    };
    view.last_event.0 = now.checked_sub(LONG_WAIT).unwrap();
    assert!(view.announces_wait());
    assert!(!view.announces_wait());
    view.draw();
    let rendered = rendered(&view.run, 30, Size { columns: 200, lines: 40 });
    assert!(rendered.contains("waiting for answers for "), "{rendered}");
}

#[test]
fn the_remaining_time_is_estimated_from_finished_debates() {
    let mut run = dashboard_after(&layers());
    run.apply(&layer_done(Layer::Number(2), &["m1.md", "m2.md", "m3.md"]), Duration::ZERO);
    let at = |second| Duration::from_secs(second);
    run.apply(&sandbox_ready("m1", "One"), at(100));
    assert_eq!(run.remaining(at(110)), None);
    run.apply(&scored("m1", 60), at(200));
    assert_eq!(run.remaining(at(200)), Some(at(200)));
}

#[test]
fn debates_of_earlier_executions_do_not_affect_the_estimate() {
    let mut run = Dashboard::new(header());
    run.apply_past([layers(), debates()].concat().iter());
    assert_eq!(run.debates(), (2, 4));
    assert_eq!(run.remaining(Duration::from_secs(50)), None);
}

#[test]
fn plain_output_has_one_line_per_event() {
    let mut run = Dashboard::new(header());
    let line = |event: &PipelineEvent| {
        run.apply(event, Duration::ZERO);
        plain::line(&run, event) + "\n"
    };
    let text: String = [layers(), debates(), final_events()].concat().iter().map(line).collect();
    assert_snapshot!(text);
}

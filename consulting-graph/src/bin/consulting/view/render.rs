//! Renders the progress of a run as lines for a screen.

use std::time::Duration;

use app_support::plural::counted;
use consulting_graph::{
    event::{Layer, RoundStatus},
    moves::MoveId,
};

use super::{
    dashboard::{
        AgentProgress, AgentStatus, Dashboard, LAYERS, MoveProgress, MoveState, finished_turns,
    },
    text::{Line, Style, truncate, wrap},
};
use sandbox_vm::report::IsolationLevel;

/// Display names of the layers.
const LAYER_NAMES: [&str; 4] = ["data", "findings", "moves", "debates"];

const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

const NOT_ISOLATED: &str = "NOT ISOLATED: debates have all permissions of this process; run `consulting doctor` for details";

/// Column at which the text after a status sign starts.
const TEXT_COLUMN: usize = 4;
const NAME_WIDTH: usize = 14;

/// Maximum length of a warning, in full lines. Longer warnings are truncated.
const WARNING_LINES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// Renders the progress of a run so that it fits the screen. `now` is the time since the start of the program.
pub(super) fn render(run: &Dashboard, now: Duration, size: Size) -> Vec<Line> {
    let mut lines = vec![header(run, size.columns), Line::new()];
    for (layer, name) in LAYERS.into_iter().zip(LAYER_NAMES) {
        lines.extend(self::layer(run, layer, name, now));
    }
    lines.extend(debates(run, now, size.columns));
    let below = footer(run, now, size.columns);
    let room = size.lines.saturating_sub(lines.len() + below.len());
    lines.extend(leaders(run, room, size.columns));
    lines.extend(below);
    let first = lines.len().saturating_sub(size.lines);
    lines.drain(..first);
    lines.into_iter().map(|it| it.truncate(size.columns)).collect()
}

fn header(run: &Dashboard, columns: usize) -> Line {
    let header = &run.header;
    let line = Line::new().push(Style::Bold, format!(" {} ", header.ticker));
    line.push(Style::Dim, header.run_id.as_str()).right(
        columns,
        Style::Dim,
        header.description.as_str(),
    )
}

fn layer(run: &Dashboard, layer: Layer, name: &str, now: Duration) -> Vec<Line> {
    let line = Line::new();
    let Some(stage) = run.layers.get(&layer) else {
        return vec![line.push(Style::Dim, " ·").at(TEXT_COLUMN, Style::Dim, name)];
    };
    let line = match &stage.artifacts {
        Some(_) => line.push(Style::Good, " ✓"),
        None => line.push(Style::Busy, format!(" {}", spinner(now))),
    };
    let line = line.at(TEXT_COLUMN, Style::Bold, name).at(
        TEXT_COLUMN + NAME_WIDTH,
        Style::Plain,
        artifacts_text(run, layer),
    );
    let line = match &run.sandbox {
        Some((backend, level)) if layer == Layer::SANDBOX => {
            let style = if *level == IsolationLevel::Off { Style::Bad } else { Style::Dim };
            line.push(style, format!(" · {backend} ({})", level.description()))
        }
        _ => line,
    };
    let agents = stage.agents.iter().filter(|_| stage.artifacts.is_none());
    std::iter::once(line).chain(agents.map(|it| agent(it, now))).collect()
}

/// Returns a short description of a layer's documents.
fn artifacts_text(run: &Dashboard, layer: Layer) -> String {
    if layer == Layer::SANDBOX {
        let (over, all) = run.debates();
        return format!("{over} of {all}");
    }
    let stage = run.layers.get(&layer);
    match stage.and_then(|it| it.artifacts.as_deref()) {
        None => String::new(),
        Some(artifacts) if artifacts.len() > 3 => match artifacts {
            [first, .., last] => format!("{} documents, {first} to {last}", artifacts.len()),
            _ => String::new(),
        },
        Some(artifacts) => artifacts.join(", "),
    }
}

fn agent(agent: &AgentProgress, now: Duration) -> Line {
    let line = Line::new();
    let name = TEXT_COLUMN + NAME_WIDTH;
    match &agent.status {
        AgentStatus::Running => line.at(TEXT_COLUMN, Style::Busy, spinner(now)).at(
            TEXT_COLUMN + 2,
            Style::Plain,
            agent.name.as_str(),
        ),
        AgentStatus::Done(artifacts) => line
            .at(TEXT_COLUMN, Style::Good, "✓")
            .at(TEXT_COLUMN + 2, Style::Plain, agent.name.as_str())
            .at(name + 24, Style::Dim, artifacts.join(" ")),
        AgentStatus::Failed(why) => line
            .at(TEXT_COLUMN, Style::Bad, "✗")
            .at(TEXT_COLUMN + 2, Style::Plain, agent.name.as_str())
            .at(name + 24, Style::Bad, why.as_str()),
    }
}

/// Renders the running debates.
fn debates(run: &Dashboard, now: Duration, columns: usize) -> Vec<Line> {
    let running = run.moves.iter().filter_map(|(id, it)| match &it.state {
        MoveState::SandboxReady => Some(sandbox_ready(*id, it, now)),
        MoveState::Debating { round, status, last } => {
            let note = status_text(run, *status);
            let rounds = run.header.rounds;
            let over = u64::from(finished_turns(*round, *status));
            let head = title(*id, it, now).right(
                columns.saturating_sub(1),
                Style::Busy,
                format!("{} round {round}/{rounds}", bar(over, 2 * u64::from(rounds), 10)),
            );
            let mut lines = vec![head, Line::new().at(TEXT_COLUMN + 5, Style::Dim, note)];
            lines.extend(last.as_ref().map(|(who, text)| {
                let line = Line::new().at(TEXT_COLUMN + 5, Style::Bold, format!("{who}:"));
                line.push(Style::Plain, format!(" {text}"))
            }));
            Some(lines)
        }
        _ => None,
    });
    let lines: Vec<Line> = running.flatten().collect();
    if lines.is_empty() { lines } else { std::iter::once(Line::new()).chain(lines).collect() }
}

fn sandbox_ready(id: MoveId, progress: &MoveProgress, now: Duration) -> Vec<Line> {
    let note = Line::new().at(TEXT_COLUMN + 5, Style::Dim, "the sandbox is ready");
    vec![title(id, progress, now), note]
}

fn title(id: MoveId, progress: &MoveProgress, now: Duration) -> Line {
    let line = Line::new().push(Style::Busy, format!(" {}", spinner(now)));
    line.at(TEXT_COLUMN, Style::Bold, id.to_string()).at(
        TEXT_COLUMN + 5,
        Style::Plain,
        progress.title.as_str(),
    )
}

fn status_text(run: &Dashboard, status: RoundStatus) -> String {
    let makers = run.header.makers.join(", ");
    match status {
        RoundStatus::CriticResponding => format!("the critic is responding to {makers}"),
        RoundStatus::CriticResponded => "the critic has responded".to_owned(),
        RoundStatus::DmResponding => format!("{makers} are answering the critic"),
        RoundStatus::DmResponded => format!("{makers} have answered"),
    }
}

/// Renders the scored moves that fit into `room` lines.
fn leaders(run: &Dashboard, room: usize, columns: usize) -> Vec<Line> {
    let ranking = run.ranking();
    // Two lines are needed for a blank line and the heading.
    let shown = ranking.all().count().min(room.saturating_sub(2));
    if shown == 0 {
        return Vec::new();
    }
    let best = run.header.max_score as u64;
    let heading = if run.is_complete { "ranking" } else { "so far" };
    let heading = Line::new().at(TEXT_COLUMN, Style::Bold, format!("{heading} (maximum {best})"));
    let rows = ranking.all().take(shown).map(|it| {
        let style = if it.rank <= run.header.top_k { Style::Good } else { Style::Dim };
        let id = it.move_id.to_string();
        let title = run.title(&id);
        let line = Line::new()
            .push(Style::Dim, format!("{:>3}", it.rank))
            .at(TEXT_COLUMN, Style::Bold, id.as_str())
            .at(TEXT_COLUMN + 5, style, format!("{:>3}", it.total_score));
        if columns < 60 {
            return line.push(Style::Plain, format!(" {title}"));
        }
        line.at(TEXT_COLUMN + 9, style, bar(u64::from(it.total_score), best, 16)).at(
            TEXT_COLUMN + 27,
            Style::Plain,
            title,
        )
    });
    [Line::new(), heading].into_iter().chain(rows).collect()
}

/// Renders the spending, the elapsed time and the warnings.
fn footer(run: &Dashboard, now: Duration, columns: usize) -> Vec<Line> {
    let spending = run.spending;
    let mut parts = Vec::new();
    if spending.calls > 0 {
        parts.push(counted(spending.calls, "call", "calls"));
    }
    if spending.input + spending.output > 0 {
        parts.push(format!(
            "{} tokens in, {} out",
            short_count(spending.input),
            short_count(spending.output)
        ));
    }
    if spending.money.nanos() > 0 {
        parts.push(format!("${:.2}", spending.money.dollars()));
    }
    parts.push(format_duration(now));
    if let Some(remaining) = run.remaining(now) {
        parts.push(format!("about {} left", format_duration(remaining)));
    }
    if let Some(wait) = run.wait.filter(|_| !run.is_complete) {
        parts.push(format!("waiting for answers for {}", format_duration(wait)));
    }
    let mut lines = vec![Line::new(), Line::new().at(TEXT_COLUMN, Style::Dim, parts.join(" · "))];
    if let Some((_, IsolationLevel::Off)) = run.sandbox {
        lines.extend(warning(NOT_ISOLATED, columns));
    }
    let skipped = run.warnings.len().saturating_sub(3);
    lines.extend(run.warnings.iter().skip(skipped).flat_map(|it| warning(it, columns)));
    lines
}

/// Renders a warning on several lines if it is long, because it may end with the command that the user should run.
fn warning(text: &str, columns: usize) -> Vec<Line> {
    let width = columns.saturating_sub(TEXT_COLUMN);
    let marks = std::iter::once(" !").chain(std::iter::repeat(""));
    let line = |(text, mark): (String, &str)| {
        Line::new().push(Style::Bad, mark).at(TEXT_COLUMN, Style::Bad, text)
    };
    wrap(&truncate(text, width * WARNING_LINES), width).into_iter().zip(marks).map(line).collect()
}

fn spinner(now: Duration) -> &'static str {
    let frame = (now.as_millis() / 120) as usize % SPINNER.len();
    SPINNER.get(frame).copied().unwrap_or_default()
}

fn bar(part: u64, all: u64, columns: u64) -> String {
    let filled = (part * columns / all.max(1)).min(columns) as usize;
    "━".repeat(filled) + &"╌".repeat(columns as usize - filled)
}

/// Formats a number of tokens compactly, such as `45k`.
pub(crate) fn short_count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Formats a duration, such as `42s`, `3m05s` or `1h04m`.
pub(crate) fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

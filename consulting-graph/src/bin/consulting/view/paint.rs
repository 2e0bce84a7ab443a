//! From what is known of a run to the lines of a screen.

use std::time::Duration;

use consulting_graph::{
    event::{Layer, RoundStatus},
    moves::MoveId,
};

use super::{
    dashboard::{Agent, Dashboard, LAYERS, Standing, State, Work, turns},
    text::{Line, Style},
};

/// What people call the layers.
const NAMES: [&str; 4] = ["data", "findings", "moves", "debates"];

const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

const NOT_ISOLATED: &str =
    "NOT ISOLATED: debates have all the rights of this process; `consulting doctor` says why";

/// Where the text of a line with a sign at its start begins.
const TEXT: usize = 4;
const NAME: usize = 14;

/// A screen's size, in columns and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// Draws how a run stands so long after the program was started. No line is wider than the screen, and there are no
/// more of them than it has.
pub(super) fn paint(run: &Dashboard, now: Duration, size: Size) -> Vec<Line> {
    let mut lines = vec![header(run, size.columns), Line::new()];
    for (layer, name) in LAYERS.into_iter().zip(NAMES) {
        lines.extend(self::layer(run, layer, name, now));
    }
    lines.extend(debates(run, now, size.columns));
    let below = footer(run, now);
    let room = size.lines.saturating_sub(lines.len() + below.len());
    lines.extend(leaders(run, room, size.columns));
    lines.extend(below);
    let first = lines.len().saturating_sub(size.lines);
    lines.drain(..first);
    lines.into_iter().map(|it| it.cut(size.columns)).collect()
}

fn header(run: &Dashboard, columns: usize) -> Line {
    let cast = &run.cast;
    let line = Line::new().push(Style::Bold, format!(" {} ", cast.ticker));
    line.push(Style::Dim, cast.run_id.as_str()).right(columns, Style::Dim, cast.terms.as_str())
}

fn layer(run: &Dashboard, layer: Layer, name: &str, now: Duration) -> Vec<Line> {
    let line = Line::new();
    let Some(stage) = run.layers.get(&layer) else {
        return vec![line.push(Style::Dim, " ·").at(TEXT, Style::Dim, name)];
    };
    let line = match &stage.made {
        Some(_) => line.push(Style::Good, " ✓"),
        None => line.push(Style::Busy, format!(" {}", spinner(now))),
    };
    let line = line.at(TEXT, Style::Bold, name).at(TEXT + NAME, Style::Plain, made(run, layer));
    let line = match &run.sandbox {
        Some((backend, true)) if layer == Layer::SANDBOX => {
            line.push(Style::Dim, format!(" · isolated in {backend}"))
        }
        Some((backend, false)) if layer == Layer::SANDBOX => {
            line.push(Style::Bad, format!(" · NOT ISOLATED ({backend})"))
        }
        _ => line,
    };
    let agents = stage.agents.iter().filter(|_| stage.made.is_none());
    std::iter::once(line).chain(agents.map(|it| agent(it, now))).collect()
}

/// What a layer made, in short.
fn made(run: &Dashboard, layer: Layer) -> String {
    if layer == Layer::SANDBOX {
        let (over, all) = run.debates();
        return format!("{over} of {all}");
    }
    let stage = run.layers.get(&layer);
    match stage.and_then(|it| it.made.as_deref()) {
        None => String::new(),
        Some(made) if made.len() > 3 => match made {
            [first, .., last] => format!("{} documents, {first} to {last}", made.len()),
            _ => String::new(),
        },
        Some(made) => made.join(", "),
    }
}

fn agent(agent: &Agent, now: Duration) -> Line {
    let line = Line::new();
    let name = TEXT + NAME;
    match &agent.work {
        Work::Busy => {
            line.at(TEXT, Style::Busy, spinner(now)).at(TEXT + 2, Style::Plain, agent.name.as_str())
        }
        Work::Made(made) => line
            .at(TEXT, Style::Good, "✓")
            .at(TEXT + 2, Style::Plain, agent.name.as_str())
            .at(name + 24, Style::Dim, made.join(" ")),
        Work::Failed(why) => line
            .at(TEXT, Style::Bad, "✗")
            .at(TEXT + 2, Style::Plain, agent.name.as_str())
            .at(name + 24, Style::Bad, why.as_str()),
    }
}

/// The debates that are held now.
fn debates(run: &Dashboard, now: Duration, columns: usize) -> Vec<Line> {
    let held = run.moves.iter().filter_map(|(id, it)| match &it.state {
        State::Opened => Some(opened(*id, it, now)),
        State::Debated { round, status, last } => {
            let speaks = speaks(run, *status);
            let rounds = run.cast.rounds;
            let over = u64::from(turns(*round, *status));
            let head = title(*id, it, now).right(
                columns.saturating_sub(1),
                Style::Busy,
                format!("{} round {round}/{rounds}", bar(over, 2 * u64::from(rounds), 10)),
            );
            let mut lines = vec![head, Line::new().at(TEXT + 5, Style::Dim, speaks)];
            lines.extend(last.as_ref().map(|(who, words)| {
                let line = Line::new().at(TEXT + 5, Style::Bold, format!("{who}:"));
                line.push(Style::Plain, format!(" {words}"))
            }));
            Some(lines)
        }
        _ => None,
    });
    let lines: Vec<Line> = held.flatten().collect();
    if lines.is_empty() { lines } else { std::iter::once(Line::new()).chain(lines).collect() }
}

fn opened(id: MoveId, standing: &Standing, now: Duration) -> Vec<Line> {
    let waits = Line::new().at(TEXT + 5, Style::Dim, "its sandbox is being made");
    vec![title(id, standing, now), waits]
}

fn title(id: MoveId, standing: &Standing, now: Duration) -> Line {
    let line = Line::new().push(Style::Busy, format!(" {}", spinner(now)));
    line.at(TEXT, Style::Bold, id.to_string()).at(TEXT + 5, Style::Plain, standing.title.as_str())
}

fn speaks(run: &Dashboard, status: RoundStatus) -> String {
    let makers = run.cast.makers.join(", ");
    match status {
        RoundStatus::CriticResponding => format!("the critic speaks to {makers}"),
        RoundStatus::CriticResponded => "the critic has spoken".to_owned(),
        RoundStatus::DmResponding => format!("{makers} answer the critic"),
        RoundStatus::DmResponded => format!("{makers} have answered"),
    }
}

/// The scored moves, as far as there is room for them.
fn leaders(run: &Dashboard, room: usize, columns: usize) -> Vec<Line> {
    let ranking = run.ranking();
    // A blank line and a heading come first.
    let shown = ranking.all().count().min(room.saturating_sub(2));
    if shown == 0 {
        return Vec::new();
    }
    let best = run.cast.best_score as u64;
    let heading = if run.is_over { "ranking" } else { "so far" };
    let heading = Line::new().at(TEXT, Style::Bold, format!("{heading}, of {best}"));
    let rows = ranking.all().take(shown).map(|it| {
        let style = if it.rank <= run.cast.top_k { Style::Good } else { Style::Dim };
        let id = it.move_id.to_string();
        let title = run.title(&id);
        let line = Line::new()
            .push(Style::Dim, format!("{:>3}", it.rank))
            .at(TEXT, Style::Bold, id.as_str())
            .at(TEXT + 5, style, format!("{:>3}", it.total_score));
        if columns < 60 {
            return line.push(Style::Plain, format!(" {title}"));
        }
        line.at(TEXT + 9, style, bar(u64::from(it.total_score), best, 16)).at(
            TEXT + 27,
            Style::Plain,
            title,
        )
    });
    [Line::new(), heading].into_iter().chain(rows).collect()
}

/// What was spent, how long it took, and what went wrong.
fn footer(run: &Dashboard, now: Duration) -> Vec<Line> {
    let spent = run.spent;
    let mut parts = Vec::new();
    if spent.calls > 0 {
        parts.push(format!("{} calls", spent.calls));
    }
    if spent.input + spent.output > 0 {
        parts.push(format!(
            "{} tokens in, {} out",
            thousands(spent.input),
            thousands(spent.output)
        ));
    }
    if spent.money.nanos() > 0 {
        parts.push(format!("${:.2}", spent.money.dollars()));
    }
    parts.push(duration(now));
    if let Some(remaining) = run.remaining(now) {
        parts.push(format!("about {} left", duration(remaining)));
    }
    let mut lines = vec![Line::new(), Line::new().at(TEXT, Style::Dim, parts.join(" · "))];
    let trouble = |it: &str| Line::new().push(Style::Bad, " !").at(TEXT, Style::Bad, it);
    if let Some((_, false)) = run.sandbox {
        lines.push(trouble(NOT_ISOLATED));
    }
    let skipped = run.troubles.len().saturating_sub(3);
    lines.extend(run.troubles.iter().skip(skipped).map(|it| trouble(it)));
    lines
}

fn spinner(now: Duration) -> &'static str {
    let frame = (now.as_millis() / 120) as usize % SPINNER.len();
    SPINNER.get(frame).copied().unwrap_or_default()
}

fn bar(part: u64, all: u64, columns: u64) -> String {
    let filled = (part * columns / all.max(1)).min(columns) as usize;
    "━".repeat(filled) + &"╌".repeat(columns as usize - filled)
}

/// A number of tokens, in short.
pub(crate) fn thousands(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// A time as people say it: `42s`, `3m05s`, `1h04m`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

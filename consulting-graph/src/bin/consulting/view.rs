//! Live view of a run on stderr: a screen, one line per event, or nothing.

mod dashboard;
mod plain;
mod render;
mod screen;
pub(crate) mod text;

use std::time::{Duration, Instant};

use consulting_graph::{
    event::{EventLog, NumberedEvent},
    run::Run,
    spending::SpendingMeter,
};

use self::{
    dashboard::{Dashboard, RunHeader},
    screen::Screen,
};
use crate::args::OutputArgs;

pub(crate) use render::{format_duration, short_count};

/// Interval at which the screen is redrawn.
pub(crate) const REDRAW_INTERVAL: Duration = Duration::from_millis(120);

/// Time without an event after which the view says that it waits for answers.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Live view of a run.
pub(crate) struct View {
    run: Dashboard,
    /// Reads the spending. `None` in a replay, which makes no calls.
    meter: Option<SpendingMeter>,
    started: Instant,
    /// Time of the last event, and whether the wait since then was announced.
    last_event: (Instant, bool),
    mode: ViewMode,
}

enum ViewMode {
    Screen(Screen),
    Lines,
    Quiet,
}

impl View {
    pub(crate) fn new(run: &Run, output: OutputArgs) -> Self {
        let mode = match (output.quiet, output.plain) {
            (true, _) => ViewMode::Quiet,
            (_, true) => ViewMode::Lines,
            _ => Screen::open().map_or(ViewMode::Lines, ViewMode::Screen),
        };
        Self {
            run: Dashboard::new(RunHeader::new(run)),
            meter: None,
            started: Instant::now(),
            last_event: (Instant::now(), false),
            mode,
        }
    }

    /// Applies the events of earlier executions and shows the spending.
    pub(crate) fn with_history(mut self, run: &Run) -> Self {
        // A new run has no event log yet.
        let before = EventLog::read(&run.dir().join("events.jsonl")).unwrap_or_default();
        self.run.apply_past(before.iter().map(|it| &it.event));
        self.meter = Some(SpendingMeter::new(run.dir().join("calls.jsonl")));
        self
    }

    pub(crate) fn show(&mut self, event: &NumberedEvent) {
        let now = self.started.elapsed();
        self.run.apply(&event.event, now);
        self.last_event = (Instant::now(), false);
        if let ViewMode::Lines = self.mode {
            eprintln!("{:>6}  {}", format_duration(now), plain::line(&self.run, &event.event));
        }
    }

    /// Redraws the screen, if there is one. Otherwise prints a line if nothing has happened for a while.
    pub(crate) fn draw(&mut self) {
        if self.announces_wait() {
            let now = format_duration(self.started.elapsed());
            eprintln!("{now:>6}  waiting for answers from the model");
        }
        let wait = self.last_event.0.elapsed();
        self.run.set_wait((wait >= LONG_WAIT).then_some(wait));
        if let ViewMode::Screen(screen) = &mut self.mode {
            if let Some(meter) = &mut self.meter {
                self.run.set_spending(meter.read());
            }
            screen.draw(&render::render(&self.run, self.started.elapsed(), screen::size()));
        }
    }

    /// Returns whether to print a line about the current wait. Returns `true` at most once per wait.
    fn announces_wait(&mut self) -> bool {
        let (since, is_announced) = self.last_event;
        let is_due = !is_announced && since.elapsed() >= LONG_WAIT;
        let announces = is_due && matches!(self.mode, ViewMode::Lines);
        self.last_event.1 |= announces;
        announces
    }

    /// Draws the screen one last time and leaves it on the terminal.
    pub(crate) fn finish(&mut self) {
        self.draw();
        if let ViewMode::Screen(screen) = &mut self.mode {
            screen.finish();
        }
    }
}

/// Returns the width of the terminal in columns.
pub(crate) fn columns() -> usize {
    screen::size().columns
}

#[cfg(test)]
mod tests;

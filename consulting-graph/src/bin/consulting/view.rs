//! What a person sees while a run runs, on stderr: a screen, lines, or nothing.

mod dashboard;
mod paint;
mod plain;
mod screen;
pub(crate) mod text;

use std::time::{Duration, Instant};

use consulting_graph::{
    event::{EventLog, Numbered},
    run::Run,
    spent::Meter,
};

use self::{
    dashboard::{Cast, Dashboard},
    screen::Screen,
};
use crate::args::ShownArgs;

pub(crate) use paint::{duration, thousands};

/// How often the screen is drawn.
pub(crate) const TICK: Duration = Duration::from_millis(120);

/// What a person sees of a run.
pub(crate) struct View {
    run: Dashboard,
    /// Nothing where no call is made.
    meter: Option<Meter>,
    since: Instant,
    form: Form,
}

enum Form {
    Screen(Screen),
    Lines,
    Nothing,
}

impl View {
    /// The view of a run that begins.
    pub(crate) fn of(run: &Run, shown: ShownArgs) -> Self {
        let form = match (shown.quiet, shown.plain) {
            (true, _) => Form::Nothing,
            (_, true) => Form::Lines,
            _ => Screen::open().map_or(Form::Lines, Form::Screen),
        };
        Self { run: Dashboard::new(Cast::of(run)), meter: None, since: Instant::now(), form }
    }

    /// The same with what happened to the run before, and with what it pays.
    pub(crate) fn catch_up(mut self, run: &Run) -> Self {
        // A new run has no events yet.
        let before = EventLog::read(&run.folder().join("events.jsonl")).unwrap_or_default();
        self.run.catch_up(before.iter().map(|it| &it.event));
        self.meter = Some(Meter::of(run.folder().join("calls.jsonl")));
        self
    }

    /// Shows what happened.
    pub(crate) fn tell(&mut self, event: &Numbered) {
        let now = self.since.elapsed();
        self.run.take(&event.event, now);
        if let Form::Lines = self.form {
            eprintln!("{:>6}  {}", duration(now), plain::line(&self.run, &event.event));
        }
    }

    /// Draws the screen, if there is one.
    pub(crate) fn draw(&mut self) {
        if let Form::Screen(screen) = &mut self.form {
            if let Some(meter) = &mut self.meter {
                self.run.pay(meter.read());
            }
            screen.draw(&paint::paint(&self.run, self.since.elapsed(), screen::size()));
        }
    }

    /// Draws it a last time and leaves it where it is.
    pub(crate) fn leave(&mut self) {
        self.draw();
        if let Form::Screen(screen) = &mut self.form {
            screen.leave();
        }
    }
}

/// So many columns the terminal has.
pub(crate) fn columns() -> usize {
    screen::size().columns
}

#[cfg(test)]
mod tests;

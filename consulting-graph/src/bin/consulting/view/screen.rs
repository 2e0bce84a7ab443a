//! A part of the terminal that is drawn again and again in its place.

use std::io::{self, IsTerminal, Write, stderr};

use super::{paint::Size, text::Line};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// What a terminal does between these two is shown at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// The lines at the end of what stands on the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    /// So many lines are ours.
    drawn: usize,
    is_coloured: bool,
}

impl Screen {
    /// The screen, if stderr is a terminal that can be drawn on.
    pub(super) fn open() -> Option<Self> {
        let is_set = |name| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|it| it == "dumb");
        if is_dumb || !stderr().is_terminal() {
            return None;
        }
        Some(Self { drawn: 0, is_coloured: !is_set("NO_COLOR") })
    }

    /// Draws these lines over the last ones.
    pub(super) fn draw(&mut self, lines: &[Line]) {
        let mut out = String::from(BEGIN) + HIDE_CURSOR + "\r";
        if self.drawn > 0 {
            out += &format!("\x1b[{}A", self.drawn);
        }
        for line in lines {
            let text = if self.is_coloured { line.ansi() } else { line.plain() };
            out += &format!("{text}\x1b[K\n");
        }
        out += "\x1b[J";
        out += END;
        self.drawn = lines.len();
        // A terminal that is gone is no reason to stop a run.
        let _ = write(&out);
    }

    /// Leaves what is drawn where it is; what comes next stands below it.
    pub(super) fn leave(&mut self) {
        if self.drawn > 0 {
            self.drawn = 0;
            let _ = write(&format!("{SHOW_CURSOR}\n"));
        }
    }
}

/// The terminal's size, one column less than it has: a terminal breaks a line that fills it.
pub(super) fn size() -> Size {
    let asked = rustix::termios::tcgetwinsize(stderr()).ok();
    let asked = asked.filter(|it| it.ws_col > 0 && it.ws_row > 0);
    let variable = |name| std::env::var(name).ok()?.parse::<usize>().ok().filter(|it| *it > 1);
    let columns = asked.map(|it| usize::from(it.ws_col)).or_else(|| variable("COLUMNS"));
    let lines = asked.map(|it| usize::from(it.ws_row)).or_else(|| variable("LINES"));
    Size { columns: columns.unwrap_or(80) - 1, lines: lines.unwrap_or(24) - 1 }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stderr = stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

//! An area of the terminal that is redrawn in place.

use std::io::{IsTerminal, stderr};

use super::{render::Size, text::Line};
use crate::output::write_stderr;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Starts a synchronized update. The terminal shows the output up to [`END`] all at once.
const BEGIN: &str = "\x1b[?2026h";
/// Ends a synchronized update.
const END: &str = "\x1b[?2026l";

/// Lines at the end of the terminal that are redrawn in place.
#[derive(Debug)]
pub(super) struct Screen {
    /// Number of lines drawn.
    drawn: usize,
    is_coloured: bool,
}

impl Screen {
    /// Opens the screen. Returns `None` if stderr is not a terminal or the terminal cannot redraw lines.
    pub(super) fn open() -> Option<Self> {
        let is_set = |name| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|it| it == "dumb");
        if is_dumb || !stderr().is_terminal() {
            return None;
        }
        Some(Self { drawn: 0, is_coloured: !is_set("NO_COLOR") })
    }

    /// Replaces the drawn lines.
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
        // A closed terminal must not stop the run.
        let _ = write_stderr(&out);
    }

    /// Leaves the drawn lines on the terminal. Later output follows below them.
    pub(super) fn finish(&mut self) {
        if self.drawn > 0 {
            self.drawn = 0;
            let _ = write_stderr(&format!("{SHOW_CURSOR}\n"));
        }
    }
}

/// Returns the size of the terminal, without the last column and line, because a full line would wrap.
pub(super) fn size() -> Size {
    let terminal = rustix::termios::tcgetwinsize(stderr()).ok();
    let terminal = terminal.filter(|it| it.ws_col > 0 && it.ws_row > 0);
    let variable = |name| std::env::var(name).ok()?.parse::<usize>().ok().filter(|it| *it > 1);
    let columns = terminal.map(|it| usize::from(it.ws_col)).or_else(|| variable("COLUMNS"));
    let lines = terminal.map(|it| usize::from(it.ws_row)).or_else(|| variable("LINES"));
    Size { columns: columns.unwrap_or(80) - 1, lines: lines.unwrap_or(24) - 1 }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

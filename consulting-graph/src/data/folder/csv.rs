//! Tables: periods across, items down.

use super::{Company, File, FolderError, Item, Period, Table, note, origin, wrong};
use crate::quantity;

pub(super) fn read(
    file: &File,
    company: &mut Company,
    table: &mut Table,
) -> Result<(), FolderError> {
    let mut periods: Option<Vec<Period>> = None;
    for (line, text) in (1..).zip(file.text.lines()) {
        let cells = cells(text.trim_start_matches('\u{feff}'));
        let Some((name, values)) = cells.split_first().filter(|_| !text.trim().is_empty()) else {
            continue;
        };
        let Some(periods) = &periods else {
            let named: Result<Vec<Period>, _> = values.iter().map(|it| Period::parse(it)).collect();
            periods = Some(named.map_err(|it| wrong(file, &line, it.to_string()))?);
            continue;
        };
        if values.len() > periods.len() {
            return Err(wrong(
                file,
                &line,
                format!(
                    "there are {} values for {} periods; put a value with commas in quotes",
                    values.len(),
                    periods.len()
                ),
            ));
        }
        let Some(item) = Item::find(name) else {
            let pairs: Vec<String> = periods
                .iter()
                .zip(values)
                .filter(|(period, _)| table.calendar.takes(**period))
                .map(|(period, it)| format!("{it} in {period}"))
                .collect();
            if !pairs.is_empty() || values.is_empty() {
                company.metrics.push(note(file, &line, &format!("{name}: {}.", pairs.join(", "))));
            }
            continue;
        };
        for (period, cell) in periods.iter().zip(values).filter(|(_, cell)| !is_blank(cell)) {
            let value = quantity::amount(cell).ok_or_else(|| {
                wrong(
                    file,
                    &line,
                    format!(
                        "{cell:?} is no number; write 1234, 1,234, $1.2bn, (45) or leave it empty"
                    ),
                )
            })?;
            table
                .add(*period, item, value, origin(file, &line))
                .map_err(|it| wrong(file, &line, it))?;
        }
    }
    Ok(())
}

fn is_blank(cell: &str) -> bool {
    matches!(cell.to_ascii_lowercase().as_str(), "" | "-" | "\u{2013}" | "\u{2014}" | "n/a" | "na")
}

/// The cells of a line: separated by commas or semicolons, in quotes where they hold one, quotes doubled inside quotes.
fn cells(line: &str) -> Vec<String> {
    let separator = if line.contains(';') && !line.contains('"') { ';' } else { ',' };
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut signs = line.chars().peekable();
    while let Some(it) = signs.next() {
        let Some(cell) = cells.last_mut() else { break };
        match it {
            '"' if quoted && signs.peek() == Some(&'"') => {
                cell.push('"');
                signs.next();
            }
            '"' => quoted = !quoted,
            it if it == separator && !quoted => cells.push(String::new()),
            it => cell.push(it),
        }
    }
    cells.into_iter().map(|it| it.trim().to_owned()).collect()
}

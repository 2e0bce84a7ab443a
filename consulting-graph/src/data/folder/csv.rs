//! Reads CSV tables that have one column per period and one row per item.

use strsim::levenshtein;

use super::{
    super::{company::Company, item::Item, statement::Period},
    input::{FolderError, InputFile, content_error, note, origin},
    statement_table::StatementTable,
};
use crate::quantity;

/// If all amounts in a table are below this value, they are probably not in whole dollars, and a warning is added.
const MIN_PLAUSIBLE_AMOUNT: f64 = 10_000.0;

pub(super) fn read(
    file: &InputFile,
    company: &mut Company,
    table: &mut StatementTable,
) -> Result<(), FolderError> {
    let mut periods: Option<Vec<Period>> = None;
    let mut scale = 1.0;
    let mut largest: f64 = 0.0;
    for (line, text) in (1..).zip(file.text.lines()) {
        let cells = cells(text.trim_start_matches('\u{feff}')).ok_or_else(|| {
            let problem =
                "a quote is not closed; close it, or double a quote that belongs to the text";
            content_error(file, &line, problem.to_owned())
        })?;
        let Some((name, values)) = cells.split_first().filter(|_| !text.trim().is_empty()) else {
            continue;
        };
        let Some(periods) = &periods else {
            if values.is_empty() {
                let problem = "the header has one cell; separate the periods with commas or semicolons, as in \
                               `item,FY2024,FY2025`";
                return Err(content_error(file, &line, problem));
            }
            let named: Result<Vec<Period>, _> = values.iter().map(|it| Period::parse(it)).collect();
            periods = Some(named.map_err(|it| content_error(file, &line, it.to_string()))?);
            scale = scale_of(name);
            continue;
        };
        if values.len() > periods.len() {
            return Err(content_error(
                file,
                &line,
                format!(
                    "the row has {} values, but the header only {}; put values that contain commas in quotes",
                    values.len(),
                    periods.len()
                ),
            ));
        }
        let Some(item) = Item::find(name) else {
            company.warnings.extend(similar_item(name).map(|item| {
                let at = origin(file, &line);
                format!("{at}: `{name}` was read as a business metric; did you mean `{item}`?")
            }));
            let pairs: Vec<String> = periods
                .iter()
                .zip(values)
                .filter(|(period, _)| table.calendar.admit(**period))
                .map(|(period, it)| format!("{it} in {period}"))
                .collect();
            if !pairs.is_empty() || values.is_empty() {
                company.metrics.push(note(file, &line, &format!("{name}: {}.", pairs.join(", "))));
            }
            continue;
        };
        for (period, cell) in periods.iter().zip(values).filter(|(_, cell)| !is_blank(cell)) {
            let value = amount(cell, scale).ok_or_else(|| {
                let problem = format!(
                    "{cell:?} is not an amount; write 1234, 1,234, $1.2bn or (45), or leave the cell empty"
                );
                content_error(file, &line, problem)
            })?;
            largest = largest.max(value.abs());
            table
                .add(*period, item, value, origin(file, &line))
                .map_err(|it| content_error(file, &line, it))?;
        }
    }
    if largest > 0.0 && largest < MIN_PLAUSIBLE_AMOUNT {
        company.warnings.push(format!(
            "{}: all amounts are below $10,000; if they are in millions, write `in millions` in the first cell",
            file.name
        ));
    }
    Ok(())
}

/// Returns the factor for amounts without a unit, as stated by the first cell of the table (`in millions`, `thousands
/// of dollars`).
fn scale_of(cell: &str) -> f64 {
    let cell = cell.to_lowercase();
    let scales = [("thousand", 1e3), ("million", 1e6), ("billion", 1e9)];
    scales.into_iter().find(|(word, _)| cell.contains(word)).map_or(1.0, |it| it.1)
}

/// Parses the amount in a cell. A unit in the cell overrides the table's scale; percentages are rejected.
fn amount(cell: &str, scale: f64) -> Option<f64> {
    let has_unit = cell.contains(char::is_alphabetic);
    let value = quantity::parse_amount(cell).filter(|_| !cell.contains('%'))?;
    Some(if has_unit { value } else { value * scale })
}

/// Returns the item that the user probably meant if `name` looks like a misspelt item name.
fn similar_item(name: &str) -> Option<Item> {
    let name = name.to_lowercase();
    let near = |it: &&Item| (1..=2).contains(&levenshtein(&name, &it.label().to_lowercase()));
    Item::ALL.iter().filter(|_| name.chars().count() > 4).find(near).copied()
}

fn is_blank(cell: &str) -> bool {
    matches!(cell.to_ascii_lowercase().as_str(), "" | "-" | "\u{2013}" | "\u{2014}" | "n/a" | "na")
}

/// Splits a line into cells separated by commas or semicolons. Quoted cells may contain separators and doubled quotes.
/// Unlike the crate `csv`, this function accepts spaces before an opening quote, which are common in tables written by
/// hand. Returns `None` if a quote is not closed.
fn cells(line: &str) -> Option<Vec<String>> {
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
    (!quoted).then(|| cells.into_iter().map(|it| it.trim().to_owned()).collect())
}

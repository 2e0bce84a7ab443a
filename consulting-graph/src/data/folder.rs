//! Reads company data from the user's own files.
//!
//! The directory may contain any number of these files:
//!
//! * `*.csv`: a table whose header lists the periods (`item,FY2024,FY2025,Q1 FY2026`), with one row per
//!   [`Item`](super::Item). Amounts are in whole dollars unless the cell states a unit (`$1.2bn`) or the first cell of
//!   the table states one for all amounts (`in millions`). A row whose name is not an item becomes a business metric.
//! * `*.json`: an object with any of `name`, `sector`, `fiscal_year_end` (such as `01-31`), `periods` (period → item →
//!   number), `guidance`, `events` and `metrics` (lists of strings).
//! * `*.md` and `*.txt`: documents, which are passed on with line numbers. A file whose name starts with `news`,
//!   `trend` or `market` is added to the news document, any other file to the financial document.
//!
//! Every number records the file and the position that it was read from. If two files contradict each other, reading
//! fails, because only the user can decide which file is right. Periods that end after the cut-off date are ignored.
//! Documents have no date, so they are always used.

mod calendar;
mod csv;
mod input;
mod json;
mod statement_table;

use std::{collections::BTreeMap, path::Path};

use calendar::Calendar;
use chrono::NaiveDate;
use input::MAX_FILE_BYTES;
use statement_table::StatementTable;

use super::{
    company::{Company, Document, Source, Subject},
    statement::Statement,
    ticker::Ticker,
};

pub(crate) use input::{FolderError, InputFile};

/// Reads all input files in a directory, sorted by name.
pub(crate) fn read(
    folder: &Path,
    ticker: &Ticker,
    as_of: NaiveDate,
) -> Result<Company, FolderError> {
    let io = |path: &Path, source| FolderError::Io { path: path.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|it| io(folder, it))? {
        let path = entry.map_err(|it| io(folder, it))?.path();
        let fits = path.extension().and_then(|it| it.to_str()).is_some_and(|it| {
            ["csv", "json", "md", "txt"].contains(&it.to_ascii_lowercase().as_str())
        });
        if fits && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(FolderError::Empty(folder.to_owned()));
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if std::fs::metadata(&path).map_err(|it| io(&path, it))?.len() > MAX_FILE_BYTES {
            return Err(FolderError::TooLarge { path });
        }
        let text = std::fs::read_to_string(&path).map_err(|it| io(&path, it))?;
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        files.push(InputFile { name, text });
    }
    company(ticker, &files, as_of)
}

/// Builds a company from the contents of the user's files.
pub(crate) fn company(
    ticker: &Ticker,
    files: &[InputFile],
    as_of: NaiveDate,
) -> Result<Company, FolderError> {
    let mut company = Company::new(ticker.clone(), ticker.as_str(), Source::Folder, as_of);
    let year_end = json::year_end(files.iter().filter(|it| extension(it) == "json"))?;
    let mut table =
        StatementTable { calendar: Calendar::new(as_of, year_end), statements: BTreeMap::new() };
    for file in files {
        match extension(file).as_str() {
            "csv" => csv::read(file, &mut company, &mut table)?,
            "json" => json::read(file, &mut company, &mut table)?,
            _ => company.documents.push(document(file)),
        }
    }
    for (period, facts) in table.statements {
        let statement = Statement { period, end: None, facts };
        match period.quarter {
            Some(_) => company.quarters.push(statement),
            None => company.annuals.push(statement),
        }
    }
    company.warnings.extend(table.calendar.warnings());
    if is_empty(&company) {
        return Err(FolderError::NoData(as_of));
    }
    Ok(company)
}

fn is_empty(company: &Company) -> bool {
    let Company { annuals, quarters, metrics, guidance, events, documents, .. } = company;
    let has_statements = !annuals.is_empty() || !quarters.is_empty();
    let has_notes = [metrics, guidance, events].iter().any(|it| !it.is_empty());
    !has_statements && !has_notes && documents.iter().all(|it| it.text.trim().is_empty())
}

fn extension(file: &InputFile) -> String {
    file.name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase()
}

fn document(file: &InputFile) -> Document {
    let lower = file.name.to_lowercase();
    let trend = ["news", "trend", "market"].iter().any(|it| lower.starts_with(it));
    let about = if trend { Subject::Trend } else { Subject::Financial };
    Document { name: file.name.clone(), about, text: file.text.clone() }
}

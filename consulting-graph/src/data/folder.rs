//! The user's own files about a company.
//!
//! A folder may hold, in any number:
//!
//! * `*.csv`: a table with a line of periods (`item,FY2024,FY2025,Q1 FY2026`) and one line an [`Item`]. Amounts are whole
//!   dollars, unless a cell says otherwise (`$1.2bn`) or the first cell of the table does (`in millions`). A line that is
//!   no item is kept as a business metric.
//! * `*.json`: an object with any of `name`, `sector`, `fiscal_year_end` (like `01-31`), `periods` (period to item to
//!   number), `guidance`, `events` and `metrics` (lists of texts).
//! * `*.md` and `*.txt`: documents, which are handed on with their line numbers. A file whose name starts with `news`,
//!   `trend` or `market` belongs to the news, any other to the financial document.
//!
//! Each number keeps the file and the place it was read from. Two files that say different things about one line of
//! one period are an error: which of them is right is not for a program to guess. Periods that end after the day of the
//! knowledge are left out; what texts say cannot be dated, and is taken as it is.

mod calendar;
mod csv;
mod json;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use calendar::Calendar;
use chrono::NaiveDate;

use super::{
    Company, Document, Fact, Item, Note, Origin, Period, Source, Statement, Subject, Ticker,
};

/// No file may be larger than this; a prompt could not hold it anyway.
const LARGEST: u64 = 4 << 20;

/// A file's name and text.
#[derive(Debug, Clone)]
pub struct File {
    /// Its name, without folders.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Why the files could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file or the folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is too large.
    #[error("{} is larger than {} MiB; give an extract of it", path.display(), LARGEST >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to read.
    #[error("there is no .csv, .json, .md or .txt file in {}; put at least one there", .0.display())]
    Empty(PathBuf),
    /// A file is not written as it should be.
    #[error("{name}:{place}: {problem}")]
    Content {
        /// The file.
        name: String,
        /// The line, or the way to a value.
        place: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
}

/// Reads all files of a folder, in the order of their names.
pub fn read(folder: &Path, ticker: &Ticker, as_of: NaiveDate) -> Result<Company, FolderError> {
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
        if std::fs::metadata(&path).map_err(|it| io(&path, it))?.len() > LARGEST {
            return Err(FolderError::TooLarge { path });
        }
        let text = std::fs::read_to_string(&path).map_err(|it| io(&path, it))?;
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        files.push(File { name, text });
    }
    company(ticker, &files, as_of)
}

/// Makes a company of files.
pub fn company(ticker: &Ticker, files: &[File], as_of: NaiveDate) -> Result<Company, FolderError> {
    let mut company = Company::new(ticker.clone(), ticker.as_str(), Source::Folder, as_of);
    let year_end = json::year_end(files.iter().filter(|it| extension(it) == "json"))?;
    let mut table = Table { calendar: Calendar::new(as_of, year_end), statements: BTreeMap::new() };
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
    Ok(company)
}

fn extension(file: &File) -> String {
    file.name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase()
}

fn document(file: &File) -> Document {
    let lower = file.name.to_lowercase();
    let trend = ["news", "trend", "market"].iter().any(|it| lower.starts_with(it));
    let about = if trend { Subject::Trend } else { Subject::Financial };
    Document { name: file.name.clone(), about, text: file.text.clone() }
}

/// The numbers read so far.
#[derive(Debug)]
struct Table {
    calendar: Calendar,
    statements: BTreeMap<Period, BTreeMap<Item, Fact>>,
}

impl Table {
    fn add(
        &mut self,
        period: Period,
        item: Item,
        value: f64,
        origin: Origin,
    ) -> Result<(), String> {
        if !self.calendar.takes(period) {
            return Ok(());
        }
        if value.abs() > 9.0e15 {
            return Err(format!(
                "{value} is larger than any company; write whole dollars or shares"
            ));
        }
        let fact = Fact { value: value.round() as i64, origin };
        let facts = self.statements.entry(period).or_default();
        match facts.get(&item) {
            Some(before) if before.value != fact.value => Err(format!(
                "{item} of {period} is {} here and {} in {}; leave one of them out",
                fact.value, before.value, before.origin
            )),
            _ => {
                facts.insert(item, fact);
                Ok(())
            }
        }
    }
}

fn note(file: &File, place: &dyn ToString, text: &str) -> Note {
    Note { date: None, text: text.trim().to_owned(), origin: origin(file, place) }
}

fn origin(file: &File, place: &dyn ToString) -> Origin {
    Origin::File { name: file.name.clone(), place: place.to_string() }
}

fn wrong(file: &File, place: &dyn ToString, problem: impl Into<String>) -> FolderError {
    FolderError::Content {
        name: file.name.clone(),
        place: place.to_string(),
        problem: problem.into(),
    }
}

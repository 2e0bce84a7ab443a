//! Reads JSON objects that contain notes and statement values. The values are grouped by period.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    super::{
        company::{Company, Note},
        item::Item,
        statement::Period,
    },
    calendar::YearEnd,
    input::{FolderError, InputFile, content_error, note, origin},
    statement_table::StatementTable,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    name: Option<String>,
    sector: Option<String>,
    fiscal_year_end: Option<String>,
    #[serde(default)]
    periods: BTreeMap<String, BTreeMap<String, f64>>,
    #[serde(default)]
    guidance: Vec<String>,
    #[serde(default)]
    events: Vec<String>,
    #[serde(default)]
    metrics: Vec<String>,
}

fn parse(file: &InputFile) -> Result<Content, FolderError> {
    serde_json::from_str(&file.text).map_err(|it| {
        let problem = format!(
            "{it}; allowed fields are name, sector, fiscal_year_end, periods, guidance, events and metrics, for example \
             {{\"periods\": {{\"FY2025\": {{\"revenue\": 1500}}}}, \"guidance\": [\"text\"]}}"
        );
        content_error(file, &it.line(), problem)
    })
}

/// Returns the end of the fiscal year if a file states it. Fails if two files state different days.
pub(super) fn year_end<'a>(
    files: impl Iterator<Item = &'a InputFile>,
) -> Result<Option<YearEnd>, FolderError> {
    let mut known: Option<(YearEnd, &InputFile)> = None;
    for file in files {
        let Some(text) = parse(file)?.fiscal_year_end else { continue };
        let error = |problem| content_error(file, &"fiscal_year_end", problem);
        let end = YearEnd::parse(&text)
            .ok_or_else(|| error(format!("{text:?} is not a month and day; write it as 01-31")))?;
        match known {
            Some((other, before)) if other != end => {
                let problem = format!("{} states a different day; remove one of them", before.name);
                return Err(error(problem));
            }
            _ => known = Some((end, file)),
        }
    }
    Ok(known.map(|it| it.0))
}

pub(super) fn read(
    file: &InputFile,
    company: &mut Company,
    table: &mut StatementTable,
) -> Result<(), FolderError> {
    let content = parse(file)?;
    if let Some(name) = content.name {
        company.name = name;
    }
    company.sector = content.sector.or(company.sector.take());
    for (name, items) in content.periods {
        let location = format!("periods.{name}");
        let period =
            Period::parse(&name).map_err(|it| content_error(file, &location, it.to_string()))?;
        for (name, value) in items {
            let location = format!("{location}.{name}");
            let item = Item::find(&name).ok_or_else(|| {
                content_error(
                    file,
                    &location,
                    "this is not a line item of a statement; add it to `metrics` as text",
                )
            })?;
            table
                .add(period, item, value, origin(file, &location))
                .map_err(|it| content_error(file, &location, it))?;
        }
    }
    company.guidance.extend(notes(file, "guidance", &content.guidance));
    company.events.extend(notes(file, "events", &content.events));
    company.metrics.extend(notes(file, "metrics", &content.metrics));
    Ok(())
}

fn notes(file: &InputFile, field: &str, texts: &[String]) -> Vec<Note> {
    texts
        .iter()
        .enumerate()
        .map(|(idx, text)| note(file, &format!("{field}[{idx}]"), text))
        .collect()
}

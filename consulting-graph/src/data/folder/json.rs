//! Objects with numbers by period and remarks by kind.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    Company, File, FolderError, Item, Note, Period, Table, calendar::YearEnd, note, origin, wrong,
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

fn parse(file: &File) -> Result<Content, FolderError> {
    serde_json::from_str(&file.text).map_err(|it| {
        let problem = format!(
            "{it}; the fields are name, sector, fiscal_year_end, periods, guidance, events and metrics, as in \
             {{\"periods\": {{\"FY2025\": {{\"revenue\": 1500}}}}, \"guidance\": [\"text\"]}}"
        );
        wrong(file, &it.line(), problem)
    })
}

/// When the fiscal year ends, where one of the files says it.
pub(super) fn year_end<'a>(
    files: impl Iterator<Item = &'a File>,
) -> Result<Option<YearEnd>, FolderError> {
    let mut known: Option<(YearEnd, &File)> = None;
    for file in files {
        let Some(text) = parse(file)?.fiscal_year_end else { continue };
        let wrong = |problem| wrong(file, &"fiscal_year_end", problem);
        let end = YearEnd::parse(&text)
            .ok_or_else(|| wrong(format!("{text:?} is no day of a year; write it like 01-31")))?;
        match known {
            Some((other, before)) if other != end => {
                let problem = format!("{} has another one; leave one of them out", before.name);
                return Err(wrong(problem));
            }
            _ => known = Some((end, file)),
        }
    }
    Ok(known.map(|it| it.0))
}

pub(super) fn read(
    file: &File,
    company: &mut Company,
    table: &mut Table,
) -> Result<(), FolderError> {
    let content = parse(file)?;
    if let Some(name) = content.name {
        company.name = name;
    }
    company.sector = content.sector.or(company.sector.take());
    for (name, items) in content.periods {
        let place = format!("periods.{name}");
        let period = Period::parse(&name).map_err(|it| wrong(file, &place, it.to_string()))?;
        for (name, value) in items {
            let place = format!("{place}.{name}");
            let item = Item::find(&name).ok_or_else(|| {
                wrong(
                    file,
                    &place,
                    "this is no line of a statement; put it among `metrics` as a text",
                )
            })?;
            table
                .add(period, item, value, origin(file, &place))
                .map_err(|it| wrong(file, &place, it))?;
        }
    }
    company.guidance.extend(notes(file, "guidance", &content.guidance));
    company.events.extend(notes(file, "events", &content.events));
    company.metrics.extend(notes(file, "metrics", &content.metrics));
    Ok(())
}

fn notes(file: &File, field: &str, texts: &[String]) -> Vec<Note> {
    texts
        .iter()
        .enumerate()
        .map(|(idx, text)| note(file, &format!("{field}[{idx}]"), text))
        .collect()
}

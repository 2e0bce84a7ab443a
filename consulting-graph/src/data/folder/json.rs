//! Objects with numbers by period and remarks by kind.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Company, File, FolderError, Item, Note, Period, Table, note, origin, wrong};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    name: Option<String>,
    sector: Option<String>,
    #[serde(default)]
    periods: BTreeMap<String, BTreeMap<String, f64>>,
    #[serde(default)]
    guidance: Vec<String>,
    #[serde(default)]
    events: Vec<String>,
    #[serde(default)]
    metrics: Vec<String>,
}

pub(super) fn read(
    file: &File,
    company: &mut Company,
    table: &mut Table,
) -> Result<(), FolderError> {
    let content: Content = serde_json::from_str(&file.text).map_err(|it| {
        wrong(file, &it.line(), format!("{it}; see the documentation of --data for the fields"))
    })?;
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

//! Results of a run for clients: the fields of the report, and additional fields with the ranked moves, the findings as
//! Markdown and the transcripts.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::Path,
};

use graph_server::http::Problem;
use serde_json::{Map, Value, json};

use super::{problem::http_problem, wire::FileInfo};
use crate::{moves::MoveId, pipeline::ReviewRequest, rank::Ranked, report::Report, run::Run};

/// Returns the result of a complete run, or `None` if the run directory contains no report.
pub(super) fn result(dir: &Path) -> io::Result<Option<Map<String, Value>>> {
    let text = match fs::read_to_string(dir.join("report.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let report: Report = serde_json::from_str(&text)?;
    let mut result: Map<String, Value> = serde_json::from_str(&text)?;
    let ranked = |moves: &[Ranked]| -> Vec<Value> {
        moves.iter().map(|it| ranked(dir, &report, it)).collect()
    };
    let markdown = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    result.extend([
        ("recommended_moves".to_owned(), json!(ranked(&report.ranking.recommended))),
        ("other_moves".to_owned(), json!(ranked(&report.ranking.other))),
        ("f1".to_owned(), json!(markdown("F1.md"))),
        ("f2".to_owned(), json!(markdown("F2.md"))),
        ("conversation_logs".to_owned(), json!(report.outcome.logs)),
    ]);
    Ok(Some(result))
}

/// Returns the moves to review of a run that waits for a review.
pub(super) fn review(dir: &Path) -> Result<ReviewRequest, Problem> {
    let run = Run::open_unchecked(dir).map_err(http_problem)?;
    let review = run.review_request().map_err(http_problem)?;
    review.ok_or_else(|| Problem::conflict("the run is not waiting for a review"))
}

fn ranked(dir: &Path, report: &Report, ranked: &Ranked) -> Value {
    let id: MoveId = ranked.move_id;
    let (the_move, score) = (report.outcome.find_move(id), report.outcome.find_score(id));
    json!({
        "rank": ranked.rank,
        "move_id": id,
        "title": the_move.map(|it| &it.draft.title),
        "persona": the_move.map(|it| &it.persona),
        "risk_level": the_move.map(|it| it.draft.risk_level),
        "total_score": ranked.total_score,
        "marks": ranked.marks,
        "scores_by_agent": score.map(|it| &it.scores_by_agent),
        "move_document": fs::read_to_string(dir.join(format!("{id}.md"))).unwrap_or_default(),
    })
}

/// Returns the titles of the moves whose documents exist, by move id. Analysts write these documents before the debates
/// start.
pub(super) fn move_titles(dir: &Path) -> BTreeMap<String, String> {
    let names = files(dir).unwrap_or_default().into_iter().map(|it| it.name);
    let title = |name: String| {
        let id = name.strip_suffix(".md").filter(|it| MoveId::parse(it).is_ok())?;
        let mut heading = String::new();
        BufReader::new(File::open(dir.join(&name)).ok()?).read_line(&mut heading).ok()?;
        let title = heading.strip_prefix(&format!("# {id}: "))?.trim_end();
        Some((id.to_owned(), title.to_owned()))
    };
    names.filter_map(title).collect()
}

/// Returns whether clients may read a file in the run directory. All other files are internal.
fn is_public(name: &str) -> bool {
    let known = [
        "report.md", "report.html", "report.json", "scores.csv", "financial.md",
        "financial-narrated.md", "news.md", "news-narrated.md", "F1.md", "F2.md", "events.jsonl",
        "config.toml",
    ];
    let is_move = || name.strip_suffix(".md").is_some_and(|it| MoveId::parse(it).is_ok());
    known.contains(&name) || is_move()
}

/// Lists the files of a run that clients may read.
pub(super) fn files(dir: &Path) -> io::Result<Vec<FileInfo>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_public(&name) {
            files.push(FileInfo { name, bytes: entry.metadata()?.len() });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Returns the content and the media type of a file, if clients may read it.
pub(super) fn file(dir: &Path, name: &str) -> io::Result<Option<(Vec<u8>, &'static str)>> {
    if !is_public(name) {
        return Ok(None);
    }
    let kind = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "csv" => "text/csv; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    match fs::read(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => Ok(Some((read?, kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn only_public_files_can_be_read() {
        for name in ["report.html", "m1.md", "m15.md", "F2.md"] {
            assert!(is_public(name), "{name}");
        }
        for name in ["state.db", "calls.jsonl", "run.json", "../m1.md", "m1.md/..", "lock", "m0.md"]
        {
            assert!(!is_public(name), "{name}");
        }
    }
}

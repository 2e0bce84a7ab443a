//! Writes the results of a run to its directory. All files can be derived again from the state of the run.

use std::{fs, path::Path};

use app_support::files::{FileError, create_dir, write_unsynced};

use crate::{
    debate, markdown::escape_markup, moves::Move, pipeline::PipelineState, report::Report,
};

/// Writes the documents that exist so far. These documents are final and are cited by debates that are still running.
pub(super) fn write_documents(dir: &Path, state: &PipelineState) -> Result<(), FileError> {
    let write_existing = |name: &str, text: &str| match text.is_empty() {
        true => Ok(()),
        false => write_unsynced(&dir.join(name), &escape_markup(text)),
    };
    write_existing("financial.md", &state.financial_data_raw)?;
    write_existing("news.md", &state.news_data_raw)?;
    write_existing("F1.md", &state.f1_financial_inference)?;
    write_existing("F2.md", &state.f2_trend_inference)?;
    let mut narrations = state.narrations.iter();
    narrations.try_for_each(|(name, text)| write_existing(name, text))
}

/// Writes all result files of a run.
pub(super) fn write_results(
    dir: &Path,
    state: &PipelineState,
    report: &Report,
) -> Result<(), FileError> {
    let write_result = |name: &str, text: &str| write_unsynced(&dir.join(name), text);
    write_result("report.md", &report.markdown())?;
    write_result("report.html", &report.html())?;
    write_result("report.json", &(report.json() + "\n"))?;
    write_result("scores.csv", &scores_csv(report))?;
    write_documents(dir, state)?;
    for it in &state.move_suggestions {
        write_result(&format!("{}.md", it.move_id), &Move::file_text(it))?;
    }
    write_logs(&dir.join("logs"), state, report)
}

/// Writes the transcripts and scores of the debates in the same format as the sandboxes do. The JSON of the transcripts
/// is part of `report.json`. Files copied from the
/// sandboxes may already exist, but the state is authoritative, so files that differ from it are replaced.
fn write_logs(dir: &Path, state: &PipelineState, report: &Report) -> Result<(), FileError> {
    let names = debate::log_names(report.outcome.decision_makers.len());
    for debate in &state.conversation_logs {
        let logs = dir.join(debate.move_id.to_string());
        create_dir(&logs)?;
        for (name, log) in debate.logs.iter().filter(|it| names.contains(it.0)) {
            replace_sandbox_file(&logs.join(format!("{name}.md")), &debate::log_markdown(log))?;
        }
    }
    for score in &state.policy_scores {
        let logs = dir.join(score.move_id.to_string());
        create_dir(&logs)?;
        replace_sandbox_file(
            &logs.join(debate::SCORES_FILE),
            &debate::pretty_json(&score.scores_by_agent),
        )?;
    }
    Ok(())
}

/// Writes a file. Logs a warning if a sandbox already wrote the file with different content.
fn replace_sandbox_file(path: &Path, text: &str) -> Result<(), FileError> {
    match fs::read(path) {
        Ok(existing) if existing == text.as_bytes() => return Ok(()),
        Ok(_) => {
            tracing::warn!(path = %path.display(), "replacing a file that a sandbox wrote with different content")
        }
        Err(_) => {}
    }
    write_unsynced(path, text)
}

/// Renders the scores as CSV.
fn scores_csv(report: &Report) -> String {
    let metrics: Vec<&str> = report.outcome.metrics.iter().map(|it| it.id.as_str()).collect();
    let mut table = format!("rank,move,decision_maker,{},source\n", metrics.join(","));
    for ranked in report.ranking.all() {
        let score = report.outcome.find_score(ranked.move_id);
        for (maker, score) in score.iter().flat_map(|it| &it.scores_by_agent) {
            let cell = |metric: &&str| score.metrics.get(*metric).map(u8::to_string);
            let cells: Vec<String> =
                metrics.iter().map(|it| cell(it).unwrap_or_default()).collect();
            let source = serde_json::to_value(score.score_source).unwrap_or_default();
            let source = source.as_str().unwrap_or_default();
            let (rank, id) = (ranked.rank, ranked.move_id);
            table.push_str(&format!("{rank},{id},{maker},{},{source}\n", cells.join(",")));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headlines and comments come from other people, and the other documents from models.
    #[test]
    fn markup_in_documents_has_no_effect() {
        let text = "see <img src=x> and ![a](http://x)".to_owned();
        let narrations = [("news-narrated.md".to_owned(), text.clone())].into();
        let state = PipelineState {
            financial_data_raw: text.clone(),
            news_data_raw: text.clone(),
            f1_financial_inference: text.clone(),
            f2_trend_inference: text,
            narrations,
            ..PipelineState::default()
        };
        let dir = tempfile::tempdir().unwrap();
        write_documents(dir.path(), &state).unwrap();
        for name in ["financial.md", "news.md", "F1.md", "F2.md", "news-narrated.md"] {
            let written = fs::read_to_string(dir.path().join(name)).unwrap();
            assert_eq!(written, "see &lt;img src=x> and ![a]&#40;http://x)", "{name}");
        }
    }
}

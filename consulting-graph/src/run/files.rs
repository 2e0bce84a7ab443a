//! Reads and writes the files of a run directory. Files are replaced atomically, so a crash never leaves a partial
//! file.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use super::error::RunError;
use crate::{debate, fence::strip_invisible, moves::Move, pipeline::PipelineState, report::Report};

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> RunError + '_ {
    |source| RunError::Io { path: path.to_owned(), source }
}

pub(super) fn create_dir(dir: &Path) -> Result<(), RunError> {
    fs::create_dir_all(dir).map_err(io_error(dir))
}

pub(super) fn read(path: &Path) -> Result<String, RunError> {
    fs::read_to_string(path).map_err(io_error(path))
}

/// Writes a file that cannot be derived from the run's state, and syncs it to disk.
pub(super) fn write_synced(path: &Path, text: &str) -> Result<(), RunError> {
    let written = write_temp(path, text).and_then(|(file, temp)| {
        file.sync_all()?;
        fs::rename(temp, path)
    });
    written.map_err(io_error(path))
}

/// Writes a file that can be derived again from the run's state, without syncing it.
fn write_unsynced(path: &Path, text: &str) -> Result<(), RunError> {
    let written = write_temp(path, text).and_then(|(_, temp)| fs::rename(temp, path));
    written.map_err(io_error(path))
}

/// Writes the text to a temporary file next to `path`. The caller renames it.
fn write_temp(path: &Path, text: &str) -> std::io::Result<(File, PathBuf)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temp = path.with_file_name(name);
    let mut file = File::create(&temp)?;
    file.write_all(text.as_bytes())?;
    Ok((file, temp))
}

/// Copies a file, if it exists. The copy is writable even if the original is read-only.
pub(super) fn copy_if_exists(from: &Path, to: &Path) -> Result<(), RunError> {
    let mut file = match File::open(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(io_error(from))?,
    };
    let mut copy = File::create(to).map_err(io_error(to))?;
    std::io::copy(&mut file, &mut copy).map(drop).map_err(io_error(to))
}

/// Writes the documents that exist so far. These documents are final and are cited by debates that are still running.
pub(super) fn write_documents(dir: &Path, state: &PipelineState) -> Result<(), RunError> {
    let documents = [
        ("financial.md", &state.financial_data_raw),
        ("news.md", &state.news_data_raw),
        ("F1.md", &state.f1_financial_inference),
        ("F2.md", &state.f2_trend_inference),
    ];
    let mut existing = documents.into_iter().filter(|(_, text)| !text.is_empty());
    existing.try_for_each(|(name, text)| write_unsynced(&dir.join(name), &strip_invisible(text)))
}

/// Writes all result files of a run.
pub(super) fn write_results(
    dir: &Path,
    state: &PipelineState,
    report: &Report,
) -> Result<(), RunError> {
    let write_result = |name: &str, text: &str| write_unsynced(&dir.join(name), text);
    write_result("report.md", &report.markdown())?;
    write_result("report.html", &report.html())?;
    write_result("report.json", &(report.json() + "\n"))?;
    write_result("scores.csv", &scores_csv(report))?;
    write_documents(dir, state)?;
    for it in &state.move_suggestions {
        write_result(&format!("{}.md", it.move_id), &strip_invisible(&Move::markdown(it)))?;
    }
    write_logs(&dir.join("logs"), state, report)
}

/// Writes the transcripts and scores of the debates in the same format as the sandboxes do. Files copied from the
/// sandboxes may already exist, but the state is authoritative, so files that differ from it are replaced.
fn write_logs(dir: &Path, state: &PipelineState, report: &Report) -> Result<(), RunError> {
    let names = debate::log_names(report.outcome.decision_makers.len());
    for debate in &state.conversation_logs {
        let logs = dir.join(debate.move_id.to_string());
        create_dir(&logs)?;
        for (name, log) in debate.logs.iter().filter(|it| names.contains(it.0)) {
            replace_sandbox_file(&logs.join(format!("{name}.md")), &debate::log_markdown(log))?;
            replace_sandbox_file(&logs.join(format!("{name}.json")), &debate::pretty_json(log))?;
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
fn replace_sandbox_file(path: &Path, text: &str) -> Result<(), RunError> {
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
        let score = report.outcome.scores.iter().find(|it| it.move_id == ranked.move_id);
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

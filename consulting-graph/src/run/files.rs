//! What a run leaves in its folder.

use std::{fs, path::Path};

use super::RunProblem;
use crate::{
    fence::visible, moves::Move, pipeline::PipelineState, report::Report,
    transcript::format_transcript,
};

fn problem(path: &Path) -> impl FnOnce(std::io::Error) -> RunProblem + '_ {
    |source| RunProblem::File { path: path.to_owned(), source }
}

pub(super) fn make(folder: &Path) -> Result<(), RunProblem> {
    fs::create_dir_all(folder).map_err(problem(folder))
}

pub(super) fn read(path: &Path) -> Result<String, RunProblem> {
    fs::read_to_string(path).map_err(problem(path))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), RunProblem> {
    fs::write(path, text).map_err(problem(path))
}

/// Copies a file, if it is there.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), RunProblem> {
    match fs::copy(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        copied => copied.map(drop).map_err(problem(from)),
    }
}

/// Writes what a run came to.
pub(super) fn write_all(
    folder: &Path,
    state: &PipelineState,
    report: &Report,
) -> Result<(), RunProblem> {
    let put = |name: &str, text: &str| write(&folder.join(name), text);
    put("report.md", &report.markdown())?;
    put("report.html", &report.html())?;
    put("report.json", &(report.json() + "\n"))?;
    put("scores.csv", &scores(report))?;
    put("financial.md", &visible(&state.financial_data_raw))?;
    put("news.md", &visible(&state.news_data_raw))?;
    put("F1.md", &visible(&state.f1_financial_inference))?;
    put("F2.md", &visible(&state.f2_trend_inference))?;
    for it in &state.move_suggestions {
        put(&format!("{}.md", it.move_id), &visible(&Move::markdown(it)))?;
    }
    for debate in &state.conversation_logs {
        let logs = folder.join("logs").join(debate.move_id.to_string());
        make(&logs)?;
        for (name, log) in &debate.logs {
            // The sandbox's own file is there, unless its guest died after the last round.
            let path = logs.join(format!("{name}.md"));
            if !path.exists() {
                write(&path, &(format_transcript(log) + "\n"))?;
            }
        }
    }
    Ok(())
}

/// The scores as a table for other programs.
fn scores(report: &Report) -> String {
    let metrics: Vec<&str> = report.outcome.metrics.iter().map(|it| it.id.as_str()).collect();
    let mut table = format!("rank,move,decision_maker,{},source\n", metrics.join(","));
    for ranked in report.ranking.all() {
        let score = report.outcome.scores.iter().find(|it| it.move_id == ranked.move_id);
        for (maker, score) in score.iter().flat_map(|it| &it.scores_by_agent) {
            let cell = |metric: &&str| score.metrics.get(*metric).map_or(0, |it| *it).to_string();
            let cells: Vec<String> = metrics.iter().map(cell).collect();
            let source = serde_json::to_value(score.score_source).unwrap_or_default();
            let source = source.as_str().unwrap_or_default();
            let (rank, id) = (ranked.rank, ranked.move_id);
            table.push_str(&format!("{rank},{id},{maker},{},{source}\n", cells.join(",")));
        }
    }
    table
}

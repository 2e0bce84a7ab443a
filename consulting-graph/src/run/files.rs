//! What a run leaves in its folder. Every file is there as a whole or not at all, whenever the process dies.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use super::RunProblem;
use crate::{debate, fence::visible, moves::Move, pipeline::PipelineState, report::Report};

fn problem(path: &Path) -> impl FnOnce(std::io::Error) -> RunProblem + '_ {
    |source| RunProblem::File { path: path.to_owned(), source }
}

pub(super) fn make(folder: &Path) -> Result<(), RunProblem> {
    fs::create_dir_all(folder).map_err(problem(folder))
}

pub(super) fn read(path: &Path) -> Result<String, RunProblem> {
    fs::read_to_string(path).map_err(problem(path))
}

/// Writes a file that nothing else could be made from again: it has reached the disk when this returns.
pub(super) fn write(path: &Path, text: &str) -> Result<(), RunProblem> {
    let written = beside(path, text).and_then(|(file, new)| {
        file.sync_all()?;
        fs::rename(new, path)
    });
    written.map_err(problem(path))
}

/// Writes a file that follows from the run's state.
fn put(path: &Path, text: &str) -> Result<(), RunProblem> {
    let written = beside(path, text).and_then(|(_, new)| fs::rename(new, path));
    written.map_err(problem(path))
}

/// Writes a text into a new file beside the one it is for, which takes its place when it is whole.
fn beside(path: &Path, text: &str) -> std::io::Result<(File, PathBuf)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    Ok((file, new))
}

/// Copies a file, if it is there. Whoever may only read it can write to the copy.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), RunProblem> {
    let mut file = match File::open(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(problem(from))?,
    };
    let mut copy = File::create(to).map_err(problem(to))?;
    std::io::copy(&mut file, &mut copy).map(drop).map_err(problem(to))
}

/// Writes the documents that there are, which do not change any more: debates that go on cite them.
pub(super) fn write_documents(folder: &Path, state: &PipelineState) -> Result<(), RunProblem> {
    let documents = [
        ("financial.md", &state.financial_data_raw),
        ("news.md", &state.news_data_raw),
        ("F1.md", &state.f1_financial_inference),
        ("F2.md", &state.f2_trend_inference),
    ];
    let mut there = documents.into_iter().filter(|(_, text)| !text.is_empty());
    there.try_for_each(|(name, text)| put(&folder.join(name), &visible(text)))
}

/// Writes what a run came to.
pub(super) fn write_all(
    folder: &Path,
    state: &PipelineState,
    report: &Report,
) -> Result<(), RunProblem> {
    let put_in = |name: &str, text: &str| put(&folder.join(name), text);
    put_in("report.md", &report.markdown())?;
    put_in("report.html", &report.html())?;
    put_in("report.json", &(report.json() + "\n"))?;
    put_in("scores.csv", &scores(report))?;
    write_documents(folder, state)?;
    for it in &state.move_suggestions {
        put_in(&format!("{}.md", it.move_id), &visible(&Move::markdown(it)))?;
    }
    write_logs(&folder.join("logs"), state, report)
}

/// Writes what was said in the debates and how they were scored, in the form in which sandboxes keep it. Their own
/// files lie there already where they came to be read; it is the state that counts.
fn write_logs(folder: &Path, state: &PipelineState, report: &Report) -> Result<(), RunProblem> {
    let names = debate::log_names(report.outcome.decision_makers.len());
    for debate in &state.conversation_logs {
        let logs = folder.join(debate.move_id.to_string());
        make(&logs)?;
        for (name, log) in debate.logs.iter().filter(|it| names.contains(it.0)) {
            settle(&logs.join(format!("{name}.md")), &debate::log_text(log))?;
            settle(&logs.join(format!("{name}.json")), &debate::data(log))?;
        }
    }
    for score in &state.policy_scores {
        let logs = folder.join(score.move_id.to_string());
        make(&logs)?;
        settle(&logs.join(debate::SCORES), &debate::data(&score.scores_by_agent))?;
    }
    Ok(())
}

/// Writes a file, and warns where a sandbox had left another one.
fn settle(path: &Path, text: &str) -> Result<(), RunProblem> {
    match fs::read(path) {
        Ok(there) if there == text.as_bytes() => return Ok(()),
        Ok(_) => tracing::warn!(path = %path.display(), "a sandbox left another file than it told"),
        Err(_) => {}
    }
    put(path, text)
}

/// The scores as a table for other programs.
fn scores(report: &Report) -> String {
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

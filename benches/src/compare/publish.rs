//! Copies the results into the book and the README, between two markers.

use std::{fs, io, path::Path};

use super::{cell::Cell, peer::Kind};

const BEGIN: &str = "<!-- Written by `cargo xtask bench`: begin -->\n";
const END: &str = "<!-- Written by `cargo xtask bench`: end -->\n";

/// Directory of the plots, relative to the chapter.
const PICTURES: &str = "pictures/benchmarks";

/// Publishes the results in `results`: all of them in the book's chapter, the summary in the README at `root`.
pub fn publish(root: &Path, results: &Path, summary: &str) -> io::Result<()> {
    let chapters = root.join("book/chapters");
    copy_plots(results, &chapters.join(PICTURES))?;
    let text = fs::read_to_string(results.join("results.md"))?;
    replace(&chapters.join("benchmarks.md"), &to_section(&text))?;
    replace(&root.join("README.md"), summary)
}

/// Returns what is missing for a publication: the peers that were not measured in any workload, and the workloads and
/// sizes at which the engine was not measured.
pub fn missing(peers: &[&str], cells: &[Cell]) -> Vec<String> {
    let is_measured = |peer: &str| cells.iter().any(|it| it.peer == peer && it.cost().is_some());
    let peers = peers.iter().filter(|it| !is_measured(it)).map(|it| (*it).to_owned());
    let of_engine = cells.iter().filter(|it| it.kind == Kind::Engine && it.cost().is_none());
    let of_engine = of_engine.map(|it| format!("{} {} {}", it.peer, it.workload.name, it.size));
    peers.chain(of_engine).collect()
}

/// Converts the results file to a section of the chapter, with headings one level lower.
fn to_section(results: &str) -> String {
    let body = results.split_once('\n').map_or("", |(_title, body)| body.trim_start());
    let demoted = body.split_inclusive('\n').map(|line| match line.starts_with('#') {
        true => format!("#{line}"),
        false => line.to_owned(),
    });
    demoted
        .collect::<String>()
        .replace(".svg)", ".svg)\0")
        .split('\0')
        .map(with_picture_path)
        .collect()
}

/// If the text ends with a link to a plot, adds the directory of the plots to the link.
fn with_picture_path(part: &str) -> String {
    match part.rsplit_once("](") {
        Some((text, target)) if target.ends_with(".svg)") => {
            format!("{text}]({PICTURES}/{target}")
        }
        _ => part.to_owned(),
    }
}

fn copy_plots(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if file.path().extension().is_some_and(|it| it == "svg") {
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

/// Replaces the text between the markers of a file.
fn replace(path: &Path, new: &str) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_old, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        let problem =
            format!("{} lacks the lines `{}` and `{}`", path.display(), BEGIN.trim(), END.trim());
        return Err(io::Error::other(problem));
    };
    fs::write(path, format!("{before}{BEGIN}{new}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::{Outcome, sample_cells};

    #[test]
    fn peer_without_a_correct_answer_is_reported_as_missing() {
        let peers = ["engine", "by hand", "slow", "absent"];
        assert_eq!(missing(&peers, &sample_cells()), ["slow", "absent"]);
    }

    #[test]
    fn size_without_a_result_of_the_engine_is_reported_as_missing() {
        let mut cells = sample_cells();
        cells[3].outcome = Outcome::Absent("failed".to_owned());
        assert_eq!(missing(&["engine", "by hand"], &cells), ["engine loop 100000"]);
    }

    #[test]
    fn results_replace_the_text_between_the_markers() {
        let root = tempfile::tempdir().unwrap();
        let (chapters, results) = (root.path().join("book/chapters"), root.path().join("results"));
        fs::create_dir_all(&chapters).unwrap();
        fs::create_dir_all(&results).unwrap();
        let page = format!("# Title\n\n{BEGIN}old\n{END}\nafter\n");
        fs::write(chapters.join("benchmarks.md"), &page).unwrap();
        fs::write(root.path().join("README.md"), &page).unwrap();
        let text = "# Results\n\nIntro (a).\n\n## loop\n\n![loop: time](loop.svg)\n\n![a](b.svg)\n";
        fs::write(results.join("results.md"), text).unwrap();
        fs::write(results.join("loop.svg"), "<svg/>").unwrap();
        // The second call replaces the result of the first one.
        for _ in 0..2 {
            publish(root.path(), &results, "- fast\n").unwrap();
        }
        let chapter = fs::read_to_string(chapters.join("benchmarks.md")).unwrap();
        let expect = format!(
            "# Title\n\n{BEGIN}Intro (a).\n\n### loop\n\n![loop: time](pictures/benchmarks/loop.svg)\n\n\
             ![a](pictures/benchmarks/b.svg)\n{END}\nafter\n"
        );
        assert_eq!(chapter, expect);
        assert!(chapters.join("pictures/benchmarks/loop.svg").exists());
        let readme = fs::read_to_string(root.path().join("README.md")).unwrap();
        assert_eq!(readme, format!("# Title\n\n{BEGIN}- fast\n{END}\nafter\n"));
    }

    #[test]
    fn a_file_without_markers_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.md");
        fs::write(&path, "text\n").unwrap();
        assert!(replace(&path, "new").unwrap_err().to_string().contains("lacks the lines"));
    }
}

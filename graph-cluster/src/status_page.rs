//! The status of a cluster as a web page.

use std::fmt::{Display, Write};

use crate::{status_text::format_seconds, store::ClusterStatus};

/// Time in seconds after which a browser loads the page again.
const RELOAD_SECONDS: u32 = 5;

const HEAD: &str = "<meta charset=\"utf-8\"><title>Cluster</title><style>
body { font-family: sans-serif; margin: 2em }
table { border-collapse: collapse; margin-bottom: 2em }
th, td { border: 1px solid #bbb; padding: 0.3em 0.8em; text-align: left }
</style>";

/// Returns a page with the workers, the runs that they execute, the number of runs by status, and the versions that no
/// worker serves. It contains no script.
pub(crate) fn status_page(status: &ClusterStatus) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head>{HEAD}\
         <meta http-equiv=\"refresh\" content=\"{RELOAD_SECONDS}\"></head><body>\n<h1>Cluster</h1>\n"
    );
    let workers = status.workers.iter().map(|it| {
        let state = if it.draining { "draining" } else { "working" };
        let (tasks, seen) = (it.tasks.to_string(), format_seconds(it.seen_ms_ago));
        [it.id.clone(), state.into(), seen, tasks, it.graphs.join(", "), it.pools.join(", ")]
    });
    let columns = ["id", "state", "seen", "tasks", "graphs", "pools"];
    write_table(&mut page, "Workers", columns, workers);
    let executing = status.workers.iter().flat_map(|worker| {
        worker.runs.iter().map(|it| {
            let (run, graph, thread) = (it.run.clone(), it.graph.clone(), it.thread.clone());
            let (time, claim) = (format_seconds(it.running_ms), it.claims.to_string());
            [run, graph, thread, worker.id.clone(), time, claim]
        })
    });
    let columns = ["run", "graph", "thread", "worker", "time", "claim"];
    write_table(&mut page, "Executing runs", columns, executing);
    let counts = status.runs.iter().map(|(status, runs)| [status.clone(), runs.to_string()]);
    write_table(&mut page, "Runs by status", ["status", "runs"], counts);
    if !status.unserved.is_empty() {
        let rows = status.unserved.iter().map(|(graph, runs)| [graph.clone(), runs.to_string()]);
        write_table(&mut page, "Versions without a worker", ["graph", "active runs"], rows);
    }
    page.push_str("</body></html>\n");
    page
}

fn write_table<const N: usize>(
    page: &mut String,
    title: &str,
    columns: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let cells = |tag: &str, cells: &[String]| -> String {
        cells.iter().map(|it| format!("<{tag}>{}</{tag}>", escape(it))).collect()
    };
    push(page, format_args!("<h2>{title}</h2>\n<table>\n"));
    push(page, format_args!("<tr>{}</tr>\n", cells("th", &columns.map(str::to_owned))));
    for row in rows {
        push(page, format_args!("<tr>{}</tr>\n", cells("td", &row)));
    }
    page.push_str("</table>\n");
}

fn push(page: &mut String, text: impl Display) {
    // Writing to a string does not fail.
    let _ = write!(page, "{text}");
}

/// Escapes text for the content of an element.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_text::tests::sample_status;

    #[test]
    fn names_of_workers_and_runs_do_not_become_markup() {
        let mut status = sample_status();
        status.workers[0].id = "<b>".to_owned();
        status.workers[0].runs[0].run = "<script> & more".to_owned();
        let page = status_page(&status);
        for row in [
            "<td>&lt;b&gt;</td><td>working</td><td>0.9 s</td><td>3</td><td>essay@2</td><td>gpu</td>",
            "<td>&lt;script&gt; &amp; more</td><td>essay</td><td>t1</td><td>&lt;b&gt;</td><td>61.2 s</td><td>2</td>",
            "<td>done</td><td>7</td>",
            "<td>essay@1</td><td>4</td>",
        ] {
            assert!(page.contains(row), "{row} is not in\n{page}");
        }
    }
}

//! Measures the start of a sandbox with each back end that works on this machine.

use std::time::{Duration, Instant};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use sandbox_vm::backend::KvmProcess;
use sandbox_vm::{
    Error, Isolation, Sandboxes, Spec,
    backend::{Backend, Gvisor, InProcess, Jail, MicroVm},
    guest::Agent,
};
use tokio::time::timeout;

use crate::{
    compare::cost::median,
    table::{cell_text, time},
};

/// Name of the workload on the command line.
pub const NAME: &str = "sandboxes";

/// Maximum number of starts of each back end.
const STARTS: usize = 20;
/// Number of starts that are measured even if they take long.
const MIN_STARTS: usize = 3;
/// Time after which no further start is measured.
const BUDGET: Duration = Duration::from_secs(4);
/// Maximum time of the measurement of one back end. If it takes longer, there is no result.
const LIMIT: Duration = Duration::from_secs(12);

/// The starts of one back end.
#[derive(Debug)]
pub struct Row {
    backend: &'static str,
    /// Durations in nanoseconds, sorted, or the reason why the back end does not work here.
    starts: Result<Vec<f64>, String>,
}

/// Measures all back ends. A start lasts until the guest has completed the handshake.
pub async fn measure() -> Vec<Row> {
    vec![
        row(InProcess::new(Agent::new)).await,
        row(Jail::this_program()).await,
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        row(KvmProcess::this_program()).await,
        row(Gvisor::this_program()).await,
        row(MicroVm::this_program().with_libraries()).await,
    ]
}

async fn row(backend: impl Backend + 'static) -> Row {
    let name = backend.name();
    let starts = match timeout(LIMIT, probe_and_start(backend)).await {
        Ok(starts) => starts,
        Err(_) => Err(format!("no result within {} seconds", LIMIT.as_secs())),
    };
    Row { backend: name, starts }
}

async fn probe_and_start(backend: impl Backend + 'static) -> Result<Vec<f64>, String> {
    match backend.probe().await.problem {
        Some(problem) => Err(problem),
        None => start_often(backend).await.map_err(|it| it.to_string()),
    }
}

async fn start_often(backend: impl Backend + 'static) -> Result<Vec<f64>, Error> {
    let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Preferred);
    let sandboxes = builder.open().await?;
    let (beginning, mut times) = (Instant::now(), Vec::new());
    while times.len() < MIN_STARTS || (times.len() < STARTS && beginning.elapsed() < BUDGET) {
        let start = Instant::now();
        let spec = Spec::new(format!("start-{}", times.len()));
        let sandbox = sandboxes.create_if_not_exists(spec).await?;
        times.push(start.elapsed().as_secs_f64() * 1e9);
        sandbox.delete().await;
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Formats the results as a section of Markdown.
pub fn section(rows: &[Row]) -> String {
    let mut text = "\n## Sandbox starts\n\nA start lasts until the guest answers. The guest is the benchmark itself; micro VMs also contain the \
                    libraries that it is linked with.\n\n\
                    | back end | time of a start | starts |\n|---|---|---|\n"
        .to_owned();
    for Row { backend, starts } in rows {
        text += &match starts {
            Ok(it) => format!(
                "| {backend} | {} ({}–{}) | {} |\n",
                time(median(it)),
                time(it[0]),
                time(it[it.len() - 1]),
                it.len()
            ),
            Err(problem) => format!("| {backend} | not available: {} | 0 |\n", cell_text(problem)),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_has_the_median_or_the_problem() {
        let rows = [
            Row { backend: "jail", starts: Ok(vec![1e6, 2e6, 5e6]) },
            Row { backend: "gvisor", starts: Err("no runsc".to_owned()) },
        ];
        let text = section(&rows);
        assert!(text.contains("| jail | 2 ms (1 ms–5 ms) | 3 |\n"), "{text}");
        assert!(text.contains("| gvisor | not available: no runsc | 0 |\n"), "{text}");
    }
}

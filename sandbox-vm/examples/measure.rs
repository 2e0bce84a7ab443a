//! Measures the available back ends and prints the results as a table. The table also shows reference times of the
//! underlying tools.
//!
//! Build this example optimised and statically linked, so that it can run as the first program in a VM. The optional
//! argument selects a single back end to measure:
//! `RUSTFLAGS='-C target-feature=+crt-static' cargo run --release -p sandbox-vm --example measure \
//!  --target x86_64-unknown-linux-gnu -- jail`
#![expect(clippy::print_stdout, reason = "examples print their results")]

use std::time::{Duration, Instant};

#[cfg(feature = "docker")]
use sandbox_vm::backend::Docker;
#[cfg(target_arch = "x86_64")]
use sandbox_vm::backend::KvmProcess;
use sandbox_vm::{
    Error, Image, Isolation, Pool, Program, Sandbox, Sandboxes, Spec,
    backend::{Backend, Gvisor, InProcess, Jail, MicroVm},
    guest::{self, Agent},
    report::Guarantee,
};

/// The rows of the table: the name of the measurement, and a reference time of the underlying tools, measured
/// separately.
const ROWS: [(&str, &str); 9] = [
    (
        "cold start",
        "0.7 ms to create namespaces; `runsc do` 125 ms; QEMU, kernel and an empty init 1.9 s",
    ),
    ("start from a snapshot", "QEMU alone 140 to 330 ms"),
    ("acquire from a pool", ""),
    ("round trip to the agent", ""),
    ("run `true`", ""),
    ("run Python, `print(1)`", "bwrap 19 ms; `runsc do` 151 ms"),
    ("write 16 MiB", ""),
    ("read 16 MiB", ""),
    ("peak memory of an idle sandbox", "QEMU 198 MiB"),
];

/// Maximum time to spend on each row.
const BUDGET: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    guest::enter(Agent::new);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let only = std::env::args().nth(1);
        let mut columns = Vec::new();
        columns.extend(column(MicroVm::this_program(), &only).await?);
        #[cfg(target_arch = "x86_64")]
        columns.extend(column(KvmProcess::this_program(), &only).await?);
        columns.extend(column(Gvisor::this_program(), &only).await?);
        columns.extend(column(Jail::this_program(), &only).await?);
        #[cfg(feature = "docker")]
        columns.extend(column(Docker::this_program(), &only).await?);
        columns.extend(column(InProcess::new(Agent::new), &only).await?);
        print(&columns);
        Ok(())
    })
}

/// A column of the table: the name of a back end and its measurements, one per row.
struct Column {
    backend: &'static str,
    cells: [String; ROWS.len()],
}

async fn column(
    backend: impl Backend + 'static,
    only: &Option<String>,
) -> Result<Option<Column>, Error> {
    let name = backend.name();
    if only.as_ref().is_some_and(|it| it != name) {
        return Ok(None);
    }
    let report = backend.probe().await;
    if let Some(problem) = report.problem {
        println!("{name} is not available: {problem}\n");
        return Ok(None);
    }
    let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Preferred);
    let sandboxes = builder.open().await?;
    let cold = p50(20, async |number| {
        let spec = Spec::new(format!("cold-{number}"));
        sandboxes.create_if_not_exists(spec).await.map(Some)
    });
    let cold = cold.await?;
    let restored = match report.guarantees.contains(&Guarantee::Snapshot) {
        true => from_snapshot(&sandboxes).await?,
        false => String::new(),
    };
    let has_programs = report.guarantees.contains(&Guarantee::Programs);
    let image = if has_programs { Image::Python } else { Image::Base };
    let one = sandboxes.create_if_not_exists(Spec::new("one").image(image)).await?;
    let [written, read] = files(&one).await?;
    let [short, python] = if has_programs { programs(&one).await? } else { Default::default() };
    let cells = [
        cold,
        restored,
        warm(&sandboxes).await?,
        p50(500, async |_| one.ping().await.map(|()| None)).await?,
        short,
        python,
        written,
        read,
        idle(&sandboxes).await?,
    ];
    sandboxes.delete_all().await;
    Ok(Some(Column { backend: name, cells }))
}

async fn programs(sandbox: &Sandbox) -> Result<[String; 2], Error> {
    let python = || Program::new("python3").args(["-c", "print(1)"]);
    Ok([
        p50(50, async |_| run(sandbox, Program::new("true")).await).await?,
        p50(20, async |_| run(sandbox, python()).await).await?,
    ])
}

async fn from_snapshot(sandboxes: &Sandboxes) -> Result<String, Error> {
    let dir = tempfile::tempdir().map_err(|source| Error::Io {
        context: "cannot create a directory for a snapshot".to_owned(),
        source,
    })?;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("snapshot-source")).await?;
    let snapshot = sandbox.snapshot(dir.path().join("snapshot")).await?;
    sandbox.delete().await;
    p50(20, async |number| {
        let spec = Spec::new(format!("restored-{number}"));
        sandboxes.restore(spec, snapshot.clone()).await.map(Some)
    })
    .await
}

async fn warm(sandboxes: &Sandboxes) -> Result<String, Error> {
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(2).open();
    let started = Instant::now();
    for _ in 0..50 {
        while pool.metrics().ready == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(pool.acquire().await?);
        if started.elapsed() > BUDGET {
            break;
        }
    }
    let metrics = pool.metrics();
    Ok(format!("{} ({})", shown(metrics.p50), metrics.warm))
}

async fn run(sandbox: &Sandbox, program: Program) -> Result<Option<Sandbox>, Error> {
    let output = sandbox.exec(program).await?;
    assert!(output.success(), "{output:?}");
    Ok(None)
}

/// Measures the throughput of writing and of reading a file.
async fn files(sandbox: &Sandbox) -> Result<[String; 2], Error> {
    let bytes = vec![7; 16 << 20];
    let rate = |started: Instant| format!("{:.0} MiB/s", 16.0 / started.elapsed().as_secs_f64());
    let started = Instant::now();
    sandbox.fs().write("large", bytes.clone()).await?;
    let written = rate(started);
    let started = Instant::now();
    assert_eq!(sandbox.fs().read("large").await?, bytes);
    Ok([written, rate(started)])
}

async fn idle(sandboxes: &Sandboxes) -> Result<String, Error> {
    let idle = sandboxes.create_if_not_exists(Spec::new("idle")).await?;
    let usage = idle.usage().await.filter(|it| it.memory > 0);
    Ok(usage
        .map(|it| format!("{:.1} MiB", it.memory as f64 / f64::from(1 << 20)))
        .unwrap_or_default())
}

/// Measures `work` repeatedly. Returns the median and the number of runs. If `work` returns a sandbox, it is deleted
/// after the run.
async fn p50(
    runs: usize,
    mut work: impl AsyncFnMut(usize) -> Result<Option<Sandbox>, Error>,
) -> Result<String, Error> {
    let beginning = Instant::now();
    let mut times = Vec::new();
    while times.len() < runs && (times.len() < 3 || beginning.elapsed() < BUDGET) {
        let started = Instant::now();
        let sandbox = work(times.len()).await?;
        times.push(started.elapsed());
        if let Some(sandbox) = sandbox {
            sandbox.delete().await;
        }
    }
    times.sort_unstable();
    Ok(format!("{} ({})", shown(times[times.len() / 2]), times.len()))
}

fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        it if it >= 1.0 => format!("{it:.2} s"),
        it if it >= 0.001 => format!("{:.1} ms", it * 1e3),
        it => format!("{:.0} µs", it * 1e6),
    }
}

fn print(columns: &[Column]) {
    let names: Vec<_> = columns.iter().map(|it| it.backend).collect();
    println!("| p50 (runs) | {} | floor |", names.join(" | "));
    println!("|{}", "---|".repeat(names.len() + 2));
    for (index, (row, floor)) in ROWS.iter().enumerate() {
        let cells: Vec<_> = columns.iter().map(|it| it.cells[index].as_str()).collect();
        println!("| {row} | {} | {floor} |", cells.join(" | "));
    }
}

//! Benchmark: measures the time that many drafts take from request to decision, and whether that time grows.
//!
//! `cargo run --release -p draft-gate --example many_drafts -- 10000 [DIR]`. Accepting a draft needs fourteen syncs, so
//! the time for fourteen plain file syncs on the same disk is measured for comparison. With an in-memory directory
//! (`/dev/shm`), the benchmark shows the gate's own cost.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{self, Write},
    time::{Duration, Instant},
};

use draft_gate::{Decision, DraftRequest, Gate, Submission};

/// Number of files in the workspace. The drafts edit them in turn.
const FILES: usize = 50;

/// Number of syncs that accepting a draft needs.
const SYNCS: usize = 14;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let n_drafts: usize = args.next().map_or(Ok(300), |it| it.parse())?;
    let dir = match args.next() {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let body: String = (0..200).map(|it| format!("value_{it} = {it}\n")).collect();
    for file in 0..FILES {
        fs::write(dir.path().join(format!("f{file}.py")), &body)?;
    }
    let gate = Gate::open(dir.path())?;
    let mut sync_file = File::create(dir.path().join("floor"))?;
    let mut times = Vec::with_capacity(n_drafts);
    let mut sync_times = vec![];
    for number in 0..n_drafts {
        let start = Instant::now();
        process_draft(&gate, number, &body)?;
        times.push(start.elapsed());
        // The two measurements are interleaved, so that both see the same disk load.
        if number % 10 == 0 {
            sync_times.push(measure_syncs(&mut sync_file)?);
        }
    }
    println!("{n_drafts} drafts in {}", dir.path().display());
    for (number, part) in times.chunks(n_drafts.div_ceil(10)).enumerate() {
        println!("tenth {:>2}: {}", number + 1, row(part));
    }
    println!("all     : {}", row(&times));
    println!("syncs   : {} for {SYNCS} syncs of one file", row(&sync_times));
    println!("ratio   : {:.1} times the p50 of plain syncs", median(&times) / median(&sync_times));
    let verified = gate.verify()?;
    println!("log     : {} lines, unmodified", verified.lines);
    Ok(())
}

/// Requests, writes, submits and judges one draft.
fn process_draft(gate: &Gate, number: usize, body: &str) -> Result<(), Box<dyn Error>> {
    let worker = gate.worker("bench")?;
    let draft = worker.request(&DraftRequest::edit(&format!("f{}.py", number % FILES), "bench"))?;
    worker.write(&draft.draft_path, &format!("{body}last = {number}\n"))?;
    let submitted = worker.submit(&Submission::of(&draft, "one more line"))?;
    let judgement = gate.judge(&submitted.set)?;
    assert_eq!(judgement.decision, Decision::Accept, "{:?}", judgement.findings);
    Ok(())
}

/// Measures the time for `SYNCS` syncs of a plain file.
fn measure_syncs(file: &mut File) -> io::Result<Duration> {
    let start = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&[b'x'; 300])?;
        file.sync_data()?;
    }
    Ok(start.elapsed())
}

fn median(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[(times.len() - 1) / 2].as_secs_f64()
}

fn row(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    format!("p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms", at(50), at(95), at(99))
}

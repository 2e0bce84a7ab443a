//! Measures where the time of a full scripted run goes: in the model's stand-in, in starting sandboxes, or in us.
//!
//! ```sh
//! cargo run --release -p consulting-graph --example measure
//! ```
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::{
    error::Error,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use consulting_graph::{
    config::DEFAULT,
    data::{DataSource, From},
    debate, debates,
    models::Choice,
    offline,
    run::{Given, Going, Run},
};
use llm::Request;
use sandbox_vm::{Isolation, Spec, guest};

/// As many as there are moves.
const SANDBOXES: u32 = 15;

fn main() -> Result<(), Box<dyn Error>> {
    guest::enter(debate::agent);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("consulting-measure-{}", std::process::id()));
    let run = Run::create(&folder, given())?;
    let begun = Instant::now();
    run.go(Going::default(), |_| {}).await?;
    let whole = begun.elapsed();
    let memory = peak_memory();
    let (calls, models) = models_alone(&folder.join("calls.jsonl")).await?;
    let (backend, starts) = starts_alone().await?;
    let rest = whole.saturating_sub(models).saturating_sub(starts);
    let share = |it: Duration| 100.0 * it.as_secs_f64() / whole.as_secs_f64();
    println!("whole run      {whole:>8.2?}");
    println!("models alone   {models:>8.2?}  {:>4.1} %  {calls} calls", share(models));
    println!(
        "sandboxes      {starts:>8.2?}  {:>4.1} %  {SANDBOXES} starts in {backend}",
        share(starts)
    );
    println!("the rest       {rest:>8.2?}  {:>4.1} %", share(rest));
    println!("memory         {memory}");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn given() -> Given {
    Given {
        run_id: "measure".to_owned(),
        ticker: "NVDA".to_owned(),
        data: DataSource {
            from: From::Synthetic,
            as_of: chrono::NaiveDate::from_ymd_opt(2026, 3, 1).unwrap_or_default(),
        },
        choice: Choice { provider: "scripted".to_owned(), model: None, seed: 7 },
        baseline: false,
        review: false,
        nonce: "measure".to_owned(),
        config: DEFAULT.to_owned(),
    }
}

/// The run's calls once more, one after the other, with nothing around them.
async fn models_alone(recording: &Path) -> Result<(usize, Duration), Box<dyn Error>> {
    let mut requests: Vec<Request> = Vec::new();
    for line in fs::read_to_string(recording)?.lines().skip(1) {
        let mut line: serde_json::Value = serde_json::from_str(line)?;
        requests.push(serde_json::from_value(line["call"]["request"].take())?);
    }
    let (calls, model) = (requests.len(), offline::model(7)?);
    let begun = Instant::now();
    for request in requests {
        model.generate(request).await?;
    }
    Ok((calls, begun.elapsed()))
}

async fn starts_alone() -> Result<(&'static str, Duration), Box<dyn Error>> {
    let sandboxes = debates::open(Isolation::Preferred, None).await?;
    let begun = Instant::now();
    for number in 0..SANDBOXES {
        let sandbox =
            sandboxes.create_if_not_exists(Spec::new(format!("measure-{number}"))).await?;
        sandbox.delete().await;
    }
    Ok((sandboxes.backend(), begun.elapsed()))
}

/// The most memory this process ever had.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    line.map_or_else(|| "not known here".to_owned(), |it| it.trim().to_owned())
}

//! Measures how much time a complete scripted run spends in the model, in starting sandboxes, and elsewhere.
//!
//! ```sh
//! cargo run --release -p consulting-graph --example measure_run
//! cargo run --release -p consulting-graph --example measure_run -- 0
//! ```
//!
//! The simulated model answers after 200 ms, which is faster than any provider, or after the number of milliseconds
//! given as an argument. Model time is the time during which at least one call is in flight.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::{
    error::Error,
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use consulting_graph::{
    config::DEFAULT,
    data::{DataOrigin, DataSource},
    debate, debate_host,
    models::ModelChoice,
    offline,
    run::{ResumeOptions, Run, RunConfig},
};
use llm::{Listener, Llm, Model, ModelId, Request, Response};
use sandbox_vm::{Isolation, Spec, guest};

/// Number of sandboxes that a run starts, one per move.
const SANDBOXES: u32 = 15;

/// Default latency of the simulated model in milliseconds.
const DEFAULT_LATENCY_MS: u64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    guest::enter(debate::agent);
    let latency = std::env::args().nth(1).map_or(Ok(DEFAULT_LATENCY_MS), |it| it.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(Duration::from_millis(latency)))
}

async fn measure(latency: Duration) -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("consulting-measure-{}", std::process::id()));
    let run = Run::create(&dir, run_config())?;
    let busy_time = Arc::new(Mutex::new(BusyTime::default()));
    let model =
        SimulatedModel { scripted: offline::model(7), latency, busy_time: busy_time.clone() };
    let options =
        ResumeOptions { model_override: Some(Llm::new(model)), ..ResumeOptions::default() };
    let started = Instant::now();
    run.resume(options, |_| {}).await?;
    let whole = started.elapsed();
    let memory = peak_memory();
    let BusyTime { calls, total: models, .. } =
        *busy_time.lock().unwrap_or_else(PoisonError::into_inner);
    let (backend, starts) = measure_sandbox_starts().await?;
    let rest = whole.saturating_sub(models).saturating_sub(starts);
    let share = |it: Duration| 100.0 * it.as_secs_f64() / whole.as_secs_f64();
    println!("total          {whole:>8.2?}");
    println!("models         {models:>8.2?}  {:>4.1} %  {calls} calls", share(models));
    println!(
        "sandboxes      {starts:>8.2?}  {:>4.1} %  {SANDBOXES} starts in {backend}",
        share(starts)
    );
    println!("other          {rest:>8.2?}  {:>4.1} %", share(rest));
    println!("memory         {memory}");
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// The scripted model with a simulated latency.
#[derive(Debug)]
struct SimulatedModel {
    scripted: Llm,
    latency: Duration,
    busy_time: Arc<Mutex<BusyTime>>,
}

/// Measures the time during which at least one call is in flight.
#[derive(Debug, Default)]
struct BusyTime {
    calls: usize,
    in_flight: usize,
    since: Option<Instant>,
    total: Duration,
}

impl BusyTime {
    fn begin(&mut self) {
        self.calls += 1;
        self.in_flight += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.total += self.since.take().map_or(Duration::ZERO, |it| it.elapsed());
        }
    }
}

#[async_trait]
impl Model for SimulatedModel {
    fn id(&self) -> ModelId {
        self.scripted.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, llm::Error> {
        self.busy_time.lock().unwrap_or_else(PoisonError::into_inner).begin();
        tokio::time::sleep(self.latency).await;
        let answer = self.scripted.call(request, listener).await;
        self.busy_time.lock().unwrap_or_else(PoisonError::into_inner).end();
        answer
    }
}

fn run_config() -> RunConfig {
    RunConfig {
        run_id: "measure".to_owned(),
        ticker: "NVDA".to_owned(),
        data: DataSource {
            origin: DataOrigin::Synthetic,
            as_of: chrono::NaiveDate::from_ymd_opt(2026, 3, 1).unwrap_or_default(),
        },
        choice: ModelChoice { seed: 7, ..ModelChoice::for_provider("scripted") },
        baseline: false,
        review: false,
        nonce: "measure".to_owned(),
        config_toml: DEFAULT.to_owned(),
    }
}

async fn measure_sandbox_starts() -> Result<(&'static str, Duration), Box<dyn Error>> {
    let sandboxes = debate_host::open_sandboxes(Isolation::Preferred, None).await?;
    let started = Instant::now();
    for number in 0..SANDBOXES {
        let sandbox =
            sandboxes.create_if_not_exists(Spec::new(format!("measure-{number}"))).await?;
        sandbox.delete().await;
    }
    Ok((sandboxes.backend(), started.elapsed()))
}

/// Returns the peak memory use of this process.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned())
}

//! Measures where the time of a full scripted run goes: in the model's stand-in, in starting sandboxes, or in us.
//!
//! ```sh
//! cargo run --release -p consulting-graph --example measure
//! cargo run --release -p consulting-graph --example measure -- 0
//! ```
//!
//! The stand-in answers after 200 ms, which is sooner than any provider, or after as many as are given. Its time is that
//! in which at least one call is under way.
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
    data::{DataSource, From},
    debate, debates,
    models::Choice,
    offline,
    run::{Given, Going, Run},
};
use llm::{Listener, Llm, Model, ModelId, Request, Response};
use sandbox_vm::{Isolation, Spec, guest};

/// As many as there are moves.
const SANDBOXES: u32 = 15;

/// How long the stand-in takes for an answer, in milliseconds.
const LATENCY: u64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    guest::enter(debate::agent);
    let latency = std::env::args().nth(1).map_or(Ok(LATENCY), |it| it.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(Duration::from_millis(latency)))
}

async fn measure(latency: Duration) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("consulting-measure-{}", std::process::id()));
    let run = Run::create(&folder, given())?;
    let busy = Arc::new(Mutex::new(Busy::default()));
    let stand_in = StandIn { scripted: offline::model(7)?, latency, busy: busy.clone() };
    let going = Going { speaker: Some(Llm::new(stand_in)), ..Going::default() };
    let begun = Instant::now();
    run.go(going, |_| {}).await?;
    let whole = begun.elapsed();
    let memory = peak_memory();
    let Busy { calls, total: models, .. } = *busy.lock().unwrap_or_else(PoisonError::into_inner);
    let (backend, starts) = starts_alone().await?;
    let rest = whole.saturating_sub(models).saturating_sub(starts);
    let share = |it: Duration| 100.0 * it.as_secs_f64() / whole.as_secs_f64();
    println!("whole run      {whole:>8.2?}");
    println!("models         {models:>8.2?}  {:>4.1} %  {calls} calls", share(models));
    println!(
        "sandboxes      {starts:>8.2?}  {:>4.1} %  {SANDBOXES} starts in {backend}",
        share(starts)
    );
    println!("the rest       {rest:>8.2?}  {:>4.1} %", share(rest));
    println!("memory         {memory}");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// The scripted model, which takes its time.
#[derive(Debug)]
struct StandIn {
    scripted: Llm,
    latency: Duration,
    busy: Arc<Mutex<Busy>>,
}

/// How long at least one call was under way.
#[derive(Debug, Default)]
struct Busy {
    calls: usize,
    under_way: usize,
    since: Option<Instant>,
    total: Duration,
}

impl Busy {
    fn begin(&mut self) {
        self.calls += 1;
        self.under_way += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.under_way -= 1;
        if self.under_way == 0 {
            self.total += self.since.take().map_or(Duration::ZERO, |it| it.elapsed());
        }
    }
}

#[async_trait]
impl Model for StandIn {
    fn id(&self) -> ModelId {
        self.scripted.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, llm::Error> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).begin();
        tokio::time::sleep(self.latency).await;
        let answer = self.scripted.call(request, listener).await;
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).end();
        answer
    }
}

fn given() -> Given {
    Given {
        run_id: "measure".to_owned(),
        ticker: "NVDA".to_owned(),
        data: DataSource {
            from: From::Synthetic,
            as_of: chrono::NaiveDate::from_ymd_opt(2026, 3, 1).unwrap_or_default(),
        },
        choice: Choice { seed: 7, ..Choice::of("scripted") },
        baseline: false,
        review: false,
        nonce: "measure".to_owned(),
        config: DEFAULT.to_owned(),
    }
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

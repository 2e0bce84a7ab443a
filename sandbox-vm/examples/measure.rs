//! Measures the jail on this machine: starts, round trips, files, memory. Meaningful in a release build only.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::{Duration, Instant};

use sandbox_vm::{
    Image, Pool, Program, Sandboxes, Spec,
    backend::Jail,
    guest::{self, Agent},
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    guest::enter(Agent::new);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Failure> {
    let sandboxes = Sandboxes::new().backend(Jail::this_program()).open().await?;
    let mut cold = Vec::new();
    for number in 0..20 {
        let started = Instant::now();
        let sandbox = sandboxes.create_if_not_exists(Spec::new(format!("cold-{number}"))).await?;
        cold.push(started.elapsed());
        sandbox.delete().await;
    }
    show("cold start, greeting included", cold);

    let sandbox = sandboxes.create_if_not_exists(Spec::new("one").image(Image::Python)).await?;
    let mut pings = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        sandbox.ping().await?;
        pings.push(started.elapsed());
    }
    show("round trip to the agent", pings);

    let mut execs = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        let output = sandbox.exec(Program::new("/bin/true")).await?;
        assert!(output.success());
        execs.push(started.elapsed());
    }
    show("exec of /bin/true", execs);

    let bytes = vec![7; 16 << 20];
    let started = Instant::now();
    sandbox.fs().write("large", bytes.clone()).await?;
    let written = started.elapsed();
    let started = Instant::now();
    assert_eq!(sandbox.fs().read("large").await?, bytes);
    let rate = |time: Duration| 16.0 / time.as_secs_f64();
    println!(
        "16 MiB: {:.0} MiB/s written, {:.0} MiB/s read",
        rate(written),
        rate(started.elapsed())
    );

    let idle = sandboxes.create_if_not_exists(Spec::new("idle")).await?;
    if let Some(usage) = idle.usage().await {
        println!("memory of an idle sandbox: {} KiB at most", usage.memory >> 10);
    }

    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).open();
    for _ in 0..50 {
        while pool.metrics().ready == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(pool.acquire().await?);
    }
    let metrics = pool.metrics();
    println!(
        "warm acquisition: p50 {:?}, p95 {:?}, {} warm of 50",
        metrics.p50, metrics.p95, metrics.warm
    );
    sandboxes.delete_all().await;
    Ok(())
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (min, p50) = (times[0], times[times.len() / 2]);
    println!("{what}: min {min:?}, p50 {p50:?}, p95 {:?}", times[times.len() * 95 / 100]);
}

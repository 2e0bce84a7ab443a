//! Runs a demonstration graph on several processes.
//!
//! Every command takes `--database URL`, or reads the URL from the variable `DATABASE_URL`. With `--restate INGRESS`,
//! Restate schedules the runs.
#![expect(clippy::print_stdout, reason = "prints results to stdout")]

#[cfg(feature = "server")]
mod api;
mod job;

use std::{
    collections::BTreeMap, env, error::Error, io, process::ExitCode, sync::Arc, time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use graph_cluster::{Client, PostgresQueue, RunStore, Scheduler, StartRun, Worker, termination};
use graph_store::PostgresSaver;
use serde::Serialize;

use self::job::{EffectLog, graph};

const USAGE: &str = "\
usage: cluster-demo COMMAND [--database URL] [OPTIONS]

commands:
  worker                  Execute runs until SIGTERM
      --id ID             Id of the worker
      --lease-ms N        Let other workers claim the runs if this worker does not report for N milliseconds
      --effects FILE      Append a line for each side effect
      --fan-out N         Minimum number of tasks in a step that are spread over workers (default: 32)
      --task-capacity N   Maximum number of spread tasks that the worker executes at a time (default: 32)
      --node-pool NAME    Bind the nodes with side effects to a pool; the same on all workers
      --pool NAME         Serve the tasks of a pool
      --stdin true        Also stop when standard input is closed
      --listen ADDRESS    Address for calls of the Restate server
      --identity-key KEY  Reject calls that the Restate server has not signed with this key
  serve                   Serve LangGraph's API until SIGTERM; the workers execute the runs
      --listen ADDRESS    Address to listen on (default: 127.0.0.1:8123)
      --stdin true        Also stop when standard input is closed
  start --run ID          Start a run
      --thread NAME       Thread of the run (default: the run id)
      --rounds N          Number of rounds (default: 3)
      --width N           Number of parallel tasks per round (default: 3)
      --pause-ms N        Duration of each task (default: 100)
      --ask true          Ask a question at the end
      --sleep-ms N        Sleep before the question (default: 0)
  wait --run ID           Wait for a run and print its result
  events --run ID         Print the events of a run as they occur
      --from N            Position of the first event (default: 0)
  answer --run ID         Answer the pending interrupt
      --value TEXT        The answer
  cancel --run ID         Cancel a run
  status                  Print the workers and the runs that they execute

options:
  --database URL          URL of the database (default: the variable DATABASE_URL)
  --restate INGRESS       Address of the Restate server's ingress";

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Command-line options. Each name is followed by a value.
struct Args(BTreeMap<String, String>);

impl Args {
    fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn get(&self, name: &str) -> Result<&str, String> {
        self.find(name).ok_or_else(|| format!("missing option {name}\n\n{USAGE}"))
    }

    /// Returns the URL of the database. Unlike an argument, a variable is not visible to other users of the machine.
    fn database(&self) -> Result<String, String> {
        let url = self.find("--database").map(str::to_owned);
        url.or_else(|| env::var("DATABASE_URL").ok()).ok_or_else(|| {
            format!("the URL of the database is missing; set --database or the variable DATABASE_URL\n\n{USAGE}")
        })
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.find(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("{name} must be a number, not `{text}`"))
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_default();
    if matches!(command.as_str(), "" | "help" | "-h" | "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let mut values = BTreeMap::new();
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        values.insert(name, value);
    }
    let args = Args(values);
    let store = RunStore::connect(&args.database()?).await?;
    match args.find("--restate") {
        #[cfg(feature = "restate")]
        Some(ingress) => {
            let mut restate = graph_cluster::Restate::new(ingress)?;
            if let Some(address) = args.find("--listen") {
                restate = restate.listen(address.parse()?);
            }
            if let Some(key) = args.find("--identity-key") {
                restate = restate.identity_key(key);
            }
            execute(&command, &args, store, restate).await
        }
        #[cfg(not(feature = "restate"))]
        Some(_) => {
            Err("this program was built without Restate; build it with `--features restate`".into())
        }
        None => execute(&command, &args, store, PostgresQueue::new()).await,
    }
}

async fn execute(
    command: &str,
    args: &Args,
    store: RunStore,
    scheduler: impl Scheduler + 'static,
) -> Result<(), Box<dyn Error>> {
    if command == "worker" {
        return work(args, store, scheduler).await;
    }
    let client = Client::new(store, scheduler);
    let run = || args.get("--run");
    match command {
        "start" => print(&client.start(&start_request(args)?).await?),
        "wait" => print(&client.wait(run()?).await?),
        "answer" => print(&client.answer(run()?, args.get("--value")?).await?),
        "cancel" => Ok(client.cancel(run()?).await?),
        "status" => print(&client.status().await?),
        #[cfg(feature = "server")]
        "serve" => {
            let address = args.find("--listen").unwrap_or("127.0.0.1:8123");
            api::serve(&args.database()?, address, client, shutdown(args)).await
        }
        #[cfg(not(feature = "server"))]
        "serve" => {
            Err("cannot serve: built without the feature `server`; add `--features server`".into())
        }
        "events" => {
            let from = i64::try_from(args.number("--from", 0)?)?;
            let mut events = client.events(run()?, from);
            while let Some(event) = events.next().await? {
                println!("{} {}", event.seq, serde_json::to_string(&event)?);
            }
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn start_request(args: &Args) -> Result<StartRun, Box<dyn Error>> {
    let run = args.get("--run")?;
    let request = StartRun::new(run, "job", args.find("--thread").unwrap_or(run));
    Ok(request
        .input("label", run)
        .input("rounds", args.number("--rounds", 3)?)
        .input("width", args.number("--width", 3)?)
        .input("pause_ms", args.number("--pause-ms", 100)?)
        .input("ask", args.find("--ask") == Some("true"))
        .input("sleep_ms", args.number("--sleep-ms", 0)?)
        .input("round", 0))
}

async fn work(
    args: &Args,
    store: RunStore,
    scheduler: impl Scheduler,
) -> Result<(), Box<dyn Error>> {
    let saver = PostgresSaver::connect(&args.database()?).await?;
    let effects = EffectLog {
        path: args.find("--effects").map(Into::into),
        worker: args.find("--id").unwrap_or_default().to_owned(),
    };
    let graph = graph(Arc::new(saver), args.find("--node-pool"))?;
    let mut worker = Worker::new(store)
        .graph("job", graph, move || effects.clone())
        .lease(Duration::from_millis(args.number("--lease-ms", 10_000)?))
        .fan_out(usize::try_from(args.number("--fan-out", 32)?)?)
        .task_capacity(usize::try_from(args.number("--task-capacity", 32)?)?);
    if let Some(pool) = args.find("--pool") {
        worker = worker.pool(pool);
    }
    if let Some(id) = args.find("--id") {
        worker = worker.id(id);
    }
    Ok(worker.serve(scheduler, shutdown(args)).await?)
}

/// Installs signal handlers, and returns a future that completes once the process should stop.
fn shutdown(args: &Args) -> impl Future<Output = ()> + Send + use<> {
    let terminated = termination();
    let stdin_closed = match args.find("--stdin") {
        Some("true") => stdin_closed(),
        _ => std::future::pending().boxed(),
    };
    async move {
        tokio::select! {
            () = terminated => {}
            () = stdin_closed => {}
        }
    }
}

/// Returns once standard input is closed. Reads on a thread that does not delay the end of the process.
fn stdin_closed() -> BoxFuture<'static, ()> {
    let (closed, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // An error also means that nothing more can be read.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = closed.send(());
    });
    wait.map(drop).boxed()
}

fn print(value: &impl Serialize) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

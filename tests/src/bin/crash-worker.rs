//! A worker that is meant to be killed: `crash-worker --saver sqlite:PATH|URL --thread T --durability
//! sync|async|exit --world FILE --acks FILE [--plan live|before:N|after:N|lie:N] [--wait SECONDS]` brings the job on
//! the thread to its end and prints what it came to; `crash-worker --saver .. --thread T --race leased|unleased|graph`
//! takes orders on its standard input.
#![expect(clippy::print_stdout, reason = "what the job came to is what the program is for")]

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{self, BufRead},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use graph_core::{Checkpointer, Durability, RunError, checkpoint::CheckpointError};
use graph_tests::crash::{
    dying::Dying,
    job::{self, World},
    race::{Racer, Way},
    saver::Home,
    worker::{Report, word_of},
};

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match obey(&Words::read()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The command line: names, each with a value.
struct Words(BTreeMap<String, String>);

impl Words {
    fn read() -> Self {
        let mut words = BTreeMap::new();
        let mut args = env::args().skip(1);
        while let (Some(name), Some(value)) = (args.next(), args.next()) {
            words.insert(name, value);
        }
        Self(words)
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn get(&self, name: &str) -> Result<&str, String> {
        self.find(name).ok_or_else(|| format!("{name} is missing"))
    }

    fn durability(&self) -> Result<Durability, String> {
        let word = self.get("--durability")?;
        let all = [Durability::Sync, Durability::Async, Durability::Exit];
        let named = all.into_iter().find(|it| word_of(*it) == word);
        named.ok_or_else(|| format!("`{word}` is no durability"))
    }
}

async fn obey(words: &Words) -> Result<(), Box<dyn Error>> {
    let home = Home::parse(words.get("--saver")?).ok_or("--saver names no saver")?;
    let saver = home.open().await?;
    match words.find("--race") {
        Some(way) => race(words, saver, Way::parse(way).ok_or("--race names no way")?).await,
        None => work(words, saver).await,
    }
}

async fn work(words: &Words, saver: Arc<dyn Checkpointer>) -> Result<(), Box<dyn Error>> {
    let plan = words.find("--plan").map_or(Ok(Default::default()), str::parse)?;
    let wait = Duration::from_secs(words.find("--wait").map_or(Ok(0), str::parse)?);
    let world = World::new(words.get("--world")?);
    let dying = Dying::before(saver, plan, words.get("--acks")?);
    let born = Instant::now();
    let job = loop {
        let saver = Arc::new(dying.clone());
        let run = job::finish(saver, words.get("--thread")?, words.durability()?, world.clone());
        match run.await {
            Err(RunError::Checkpoint(CheckpointError::Busy { .. })) if born.elapsed() < wait => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            result => break result?,
        }
    };
    println!("{}", serde_json::to_string(&Report { job, n_writes: dying.way().n_writes() })?);
    Ok(())
}

async fn race(words: &Words, saver: Arc<dyn Checkpointer>, way: Way) -> Result<(), Box<dyn Error>> {
    let mut racer = Racer::new(saver, words.get("--thread")?, way);
    for order in io::stdin().lock().lines() {
        println!("{}", racer.obey(&order?).await);
    }
    Ok(())
}

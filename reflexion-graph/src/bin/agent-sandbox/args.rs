//! What can be typed.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use graph_server::http::KeyHash;
use llm::Money;
use reflexion_graph::{language::LANGUAGES, models::Allowance, workshop::BACKENDS};

const EXAMPLES: &str = "\
Examples:
  agent-sandbox run \"Calculate fibonacci(10)\"
  agent-sandbox run \"Read data from users.json and print usernames\"   a first try that fails
  agent-sandbox run \"Print the sum of 1 to 100\" --expect 5050 --provider groq
  agent-sandbox run \"Write slug(text)\" --test tests.py --max-attempts 5
  agent-sandbox fork runs/ID --at 2 --provider openai  another model from the second attempt on
  agent-sandbox bench                                  the built-in problems
  agent-sandbox serve                                  the same over HTTP, at http://127.0.0.1:8100

Without a provider's key, in the environment or in a file .env, a scripted model answers: it knows the
first two tasks above and the built-in problems.

Exit codes: 0 solved, 1 failed, 2 wrong usage, 3 not solved, 130 interrupted.";

/// From a task to a program that ran: written by a model, run in a sandbox, criticised and written again.
#[derive(Debug, Parser)]
#[command(name = "agent-sandbox", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Show the program's log on stderr; RUST_LOG says more exactly what
    #[arg(long, global = true)]
    pub(crate) log: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Has a program written and run, until it works or the attempts are used up.
    Run(RunArgs),
    /// Goes on with a session from where it stands; nothing is paid for or run twice. A budget that is named takes
    /// the place of the old one, and what was paid counts: one that ended because it was spent goes further.
    Resume(ResumeArgs),
    /// Begins a session anew from one of its attempts: those before it are kept, and cost nothing again.
    Fork(ForkArgs),
    /// Tries a set of problems and says how many were solved, in how many attempts, at what cost.
    Bench(BenchArgs),
    /// Serves jobs over HTTP, with their progress as server-sent events.
    Serve(Box<ServeArgs>),
    /// Measures what a sandbox costs beside a plain process.
    Measure(MeasureArgs),
    /// Draws the graph that a session is.
    Graph {
        /// As what
        #[arg(long, value_enum, default_value = "mermaid")]
        format: Format,
    },
    /// Says which sandboxes this machine offers, and who would write.
    Doctor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Mermaid,
    Dot,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What the program is to do
    pub(crate) task: String,
    /// Run these tests behind the program; they see its names
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<PathBuf>,
    /// What the program has to print, apart from blanks around it
    #[arg(long, value_name = "TEXT")]
    pub(crate) expect: Option<String>,
    /// The session's folder; it must be empty or not there [default: runs/ and its id]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
    #[command(flatten)]
    pub(crate) trying: TryingArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The session: its folder, or its name under runs/
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The session: its folder, or its name under runs/; it has come to its end
    pub(crate) run: PathBuf,
    /// The attempt that is made anew
    #[arg(long, value_name = "ATTEMPT")]
    pub(crate) at: u32,
    /// How often a program is written at most, with those that are kept, 1 to 10 [default: as before, or one more]
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<u32>,
    /// Who writes from there on [default: as before]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The model [default: as before, or another provider's default]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// The new session's folder; it must be empty or not there [default: runs/ and its id]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// Who writes, and what that may cost.
#[derive(Debug, Args)]
pub(crate) struct VoiceArgs {
    /// Who writes: anthropic, openai, google, groq, openrouter, ollama, openai-compatible or scripted
    /// [default: the one whose key is in the environment or in .env, else scripted]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The model, instead of the provider's default
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
}

/// What models may cost.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Dollars that the models may cost, in a session, in a whole benchmark, or in each job of a server
    #[arg(long, value_name = "DOLLARS", value_parser = money)]
    pub(crate) max_cost: Option<Money>,
    /// Tokens that they may use, in and out together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
}

impl BudgetArgs {
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance { tokens: self.max_tokens, money: self.max_cost }
    }

    /// The same, where anything is said.
    pub(crate) fn given(&self) -> Option<Allowance> {
        Some(self.allowance()).filter(|it| *it != Allowance::default())
    }
}

/// How a task is tried.
#[derive(Debug, Args)]
pub(crate) struct TryingArgs {
    /// How often a program is written at most, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) max_attempts: u32,
    /// Seconds that an execution may take, 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) timeout: f64,
    /// Seconds of processor time that it may use [default: the timeout]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) cpu_time: Option<f64>,
    /// MiB of memory, 64 to 2048; there is no swap
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub(crate) memory: u64,
    /// What happens after a failure
    #[arg(long, value_enum, default_value = "reflect")]
    pub(crate) strategy: Strategy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// It is criticised, and the next attempt is told of it
    Reflect,
    /// The next attempt starts afresh: what reflection is measured against
    Resample,
}

/// Where programs run.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// How much of a processor an execution gets, 0.1 to 4
    #[arg(long, value_name = "N", default_value_t = 0.5, value_parser = cpus)]
    pub(crate) cpus: f64,
    /// Sandboxes that are kept ready, 1 to 20; each is used once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) pool: u8,
    /// The one kind of sandbox to use [default: jail, or another that isolates where it does not work]
    #[arg(long, value_name = "BACKEND", value_parser = PossibleValuesParser::new(BACKENDS))]
    pub(crate) sandbox: Option<String>,
    /// What programs are written in
    #[arg(long, value_name = "NAME", default_value = "python", value_parser = PossibleValuesParser::new(LANGUAGES))]
    pub(crate) language: String,
    /// A folder of packages that programs may use, with its list wheels.toml
    #[arg(long, value_name = "DIR")]
    pub(crate) wheels: Option<PathBuf>,
}

/// What is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShownArgs {
    /// One JSON document on stdout: the session's folder and all that it came to
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Write what the session did, step by step, as a page for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// A file of problems, instead of the built-in ones: TOML as theirs, or .jsonl as HumanEval's
    #[arg(long, value_name = "FILE")]
    pub(crate) problems: Option<PathBuf>,
    /// Try only problems whose name holds this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Independent sessions of each problem
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) samples: u16,
    /// Sessions at once
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
    #[command(flatten)]
    pub(crate) trying: TryingArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The variable of the key that opens a server.
pub(crate) const API_KEY: &str = "AGENT_SANDBOX_API_KEY";

const SERVE_EXAMPLES: &str = "\
Examples:
  agent-sandbox serve
  curl -s localhost:8100/execute -H 'content-type: application/json' -d '{\"task\": \"Calculate fibonacci(10)\"}'
  curl -N localhost:8100/jobs/ID/stream

A client may ask for another timeout and more attempts, up to 60 seconds and 10: here they are defaults. The memory,
--cpu-time, --max-cost and --max-tokens bound every job.

Others than this machine can reach it only with a key, from the variable AGENT_SANDBOX_API_KEY or by its hash.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8100")]
    pub(crate) address: SocketAddr,
    /// The folder of all jobs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) runs: PathBuf,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
    #[command(flatten)]
    pub(crate) trying: TryingArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Jobs at once; others wait for their turn
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_jobs: u16,
    /// Readers of progress at once
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_streams: usize,
    /// Requests a minute from one address
    #[arg(long, value_name = "N", default_value_t = 1200)]
    pub(crate) rate: u32,
    /// The hash of a key that opens, like sha256:…; can be given several times
    #[arg(long, value_name = "HASH")]
    pub(crate) key_hash: Vec<KeyHash>,
    /// A name the server is known by, besides localhost and its addresses; can be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Seconds that live jobs get to come to their end when the server is stopped; others go on at the next start
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) grace: u64,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// How often each is measured
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: u16,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

fn money(text: &str) -> Result<Money, String> {
    let dollars = text.trim_start_matches('$').parse::<f64>().ok();
    let dollars = dollars.filter(|it| it.is_finite() && *it > 0.0);
    dollars.map(Money::from_dollars).ok_or_else(|| "give dollars, like 0.50".to_owned())
}

fn cpus(text: &str) -> Result<f64, String> {
    let cpus: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.1..=4.0).contains(&cpus) { Ok(cpus) } else { Err("it is from 0.1 to 4".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn what_is_typed_is_understood_or_refused() {
        Cli::command().debug_assert();
        for right in [
            "run task --test t.py --expect 5 --max-attempts 4 --timeout 2 --memory 128 --cpus 1 --json",
            "run task --provider groq --model x --sandbox gvisor --language sh --log",
            "resume session --max-tokens 9000 --max-cost 1",
            "fork session --at 2 --provider groq --model x --max-attempts 5",
            "bench --samples 3 --strategy resample --max-cost $2.50 --max-tokens 1000",
        ] {
            let line = std::iter::once("agent-sandbox").chain(right.split(' '));
            assert!(Cli::try_parse_from(line).is_ok(), "{right}");
        }
        for wrong in [
            "run",
            "run task --cpus 9",
            "run task --pool 0",
            "run task --sandbox x",
            "run task --max-cost 0",
            "run task --max-cost much",
            "run task --max-tokens 0",
            "resume session --max-tokens 0",
            "fork session",
            "measure --runs 0",
            "bench --samples 0",
            "serve --max-jobs 0",
        ] {
            let line = std::iter::once("agent-sandbox").chain(wrong.split(' '));
            assert!(Cli::try_parse_from(line).is_err(), "{wrong}");
        }
    }
}

//! Command-line arguments.

use std::{net::SocketAddr, path::PathBuf};

use app_support::{args::dollars, server::ServerArgs};
use clap::{Args, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use llm::Money;
use reflexion_graph::{executor::BACKENDS, language::LANGUAGES, models::RunBudget};

const EXAMPLES: &str = "\
Examples:
  agent-sandbox run \"Calculate fibonacci(10)\"
  agent-sandbox run \"Read data from users.json and print usernames\"   # the first attempt fails
  agent-sandbox run \"Print the sum of 1 to 100\" --expect 5050 --provider groq
  agent-sandbox run \"Write slug(text)\" --test tests.py --max-attempts 5
  agent-sandbox fork runs/ID --at 2 --provider openai  # repeat attempt 2 with another model
  agent-sandbox bench                                  # try the built-in problems
  agent-sandbox serve                                  # accept jobs at http://127.0.0.1:8100

Without a provider's API key in the environment or in .env, a scripted model answers. It knows only the
first two tasks above and the built-in problems.

Exit codes: 0 solved, 1 error, 2 usage error, 3 not solved, 130 interrupted.";

/// Solve tasks with programs that a model writes, a sandbox runs and a critic corrects.
#[derive(Debug, Parser)]
#[command(name = "agent-sandbox", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print log messages on stderr; RUST_LOG selects which
    #[arg(long, global = true)]
    pub(crate) log: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write and run programs until one works or all attempts are used
    Run(RunArgs),
    /// Resume a session without repeating completed calls; --max-cost and --max-tokens replace its budget
    Resume(ResumeArgs),
    /// Start a new session from an attempt of another one; earlier attempts are not paid for again
    Fork(ForkArgs),
    /// Try a set of problems and report how many are solved, in how many attempts and at what cost
    Bench(BenchArgs),
    /// Accept jobs over HTTP and stream their progress as server-sent events
    Serve(Box<ServeArgs>),
    /// Measure the overhead of a sandbox compared with a plain process
    Measure(MeasureArgs),
    /// Print the graph of a session
    Graph {
        /// Output format
        #[arg(long, value_enum, default_value = "mermaid")]
        format: Format,
    },
    /// Show which sandbox back ends work on this machine and which model provider is used
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
    /// Task that the program should solve
    pub(crate) task: String,
    /// Run the tests in FILE after the program, with access to its names
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<PathBuf>,
    /// Require the program to print TEXT; surrounding whitespace is ignored
    #[arg(long, value_name = "TEXT")]
    pub(crate) expect: Option<String>,
    /// Store the session in DIR, which must be empty or not exist [default: runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) attempts: AttemptArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Directory of the session, or its name under runs/
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// Directory of the complete session to fork, or its name under runs/
    pub(crate) run: PathBuf,
    /// Repeat this attempt and keep the ones before it
    #[arg(long, value_name = "ATTEMPT")]
    pub(crate) at: u32,
    /// Set the maximum number of attempts, including the kept ones, 1 to 10 [default: as in the session, at least
    /// ATTEMPT]
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<u32>,
    /// Use this provider from here on [default: as before]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Use this model [default: as before, or the new provider's default]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// Store the new session in DIR, which must be empty or not exist [default: runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options that select the model and its budget.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Use anthropic, openai, google, groq, openrouter, ollama, openai-compatible or scripted [default: the provider
    /// whose API key is in the environment or in .env, else scripted]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Use this model instead of the provider's default
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
}

/// Options that limit spending.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Limit the cost of models in US dollars, per session, per benchmark, or per job of a server
    #[arg(long, value_name = "DOLLARS", value_parser = money)]
    pub(crate) max_cost: Option<Money>,
    /// Limit the number of input and output tokens together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
}

impl BudgetArgs {
    pub(crate) fn to_run_budget(&self) -> RunBudget {
        RunBudget { tokens: self.max_tokens, money: self.max_cost }
    }

    /// Returns the budget if at least one option is set.
    pub(crate) fn specified(&self) -> Option<RunBudget> {
        Some(self.to_run_budget()).filter(|it| *it != RunBudget::default())
    }
}

/// Options that apply to each attempt.
#[derive(Debug, Args)]
pub(crate) struct AttemptArgs {
    /// Set the maximum number of attempts, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) max_attempts: u32,
    /// Limit each execution to SECONDS of wall-clock time, 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) timeout: f64,
    /// Limit each execution to SECONDS of CPU time [default: the timeout]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) cpu_time: Option<f64>,
    /// Limit memory to MIB MiB, 64 to 2048, without swap; without a control group, jail and gvisor only measure it
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub(crate) memory: u64,
    /// Choose what to do after a failed attempt
    #[arg(long, value_enum, default_value = "reflect")]
    pub(crate) strategy: Strategy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// Let a critic explain the failure to the next attempt
    Reflect,
    /// Start the next attempt from scratch, as a baseline for comparison
    Resample,
}

/// Options of the sandboxes.
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// Give each execution N processors, 0.1 to 4
    #[arg(long, value_name = "N", default_value_t = 0.5, value_parser = cpus)]
    pub(crate) cpus: f64,
    /// Keep up to N sandboxes ready, 1 to 20; each is used once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) pool: u8,
    /// Use this sandbox back end; jail and gvisor warn if no control group bounds memory [default: jail, or another
    /// isolating one if jail does not work]
    #[arg(long, value_name = "BACKEND", value_parser = PossibleValuesParser::new(BACKENDS))]
    pub(crate) sandbox: Option<String>,
    /// Write programs in this language
    #[arg(long, value_name = "NAME", default_value = "python", value_parser = PossibleValuesParser::new(LANGUAGES))]
    pub(crate) language: String,
    /// Let programs use the packages listed in DIR/wheels.toml
    #[arg(long, value_name = "DIR")]
    pub(crate) wheels: Option<PathBuf>,
}

/// Options of the output.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document with the session's directory and its result
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not print progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Write an HTML page that shows the steps of the session to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Read problems from FILE: TOML like the built-in ones, or .jsonl in the format of HumanEval
    #[arg(long, value_name = "FILE")]
    pub(crate) problems: Option<PathBuf>,
    /// Try only problems whose id contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Run N independent sessions per problem
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) samples: u16,
    /// Run up to N sessions at the same time
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) attempts: AttemptArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Environment variable that contains the server's API key.
pub(crate) const API_KEY: &str = "AGENT_SANDBOX_API_KEY";

const SERVE_EXAMPLES: &str = "\
Examples:
  agent-sandbox serve
  curl -s localhost:8100/execute -H 'content-type: application/json' -d '{\"task\": \"Calculate fibonacci(10)\"}'
  curl -N localhost:8100/jobs/ID/stream

--timeout and --max-attempts are defaults; a request may set its own, up to 60 seconds and 10 attempts. --memory,
--cpu-time, --max-cost and --max-tokens limit every job.

Listening on a public address requires an API key, set with AGENT_SANDBOX_API_KEY or --key-hash.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8100")]
    pub(crate) address: SocketAddr,
    /// Store all jobs in DIR
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) runs: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) attempts: AttemptArgs,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
    /// Run up to N jobs at the same time; others wait in a queue
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_jobs: u16,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Measure each variant N times
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: u16,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

fn money(text: &str) -> Result<Money, String> {
    dollars(text).map(Money::from_dollars)
}

fn cpus(text: &str) -> Result<f64, String> {
    let cpus: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (0.1..=4.0).contains(&cpus) {
        Ok(cpus)
    } else {
        Err("expected a value from 0.1 to 4".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn valid_arguments_parse_and_invalid_ones_are_rejected() {
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
            "run", "run task --cpus 9", "run task --pool 0", "run task --sandbox x",
            "run task --max-cost 0", "run task --max-cost much", "run task --max-tokens 0",
            "resume session --max-tokens 0", "fork session", "measure --runs 0",
            "bench --samples 0", "serve --max-jobs 0",
        ] {
            let line = std::iter::once("agent-sandbox").chain(wrong.split(' '));
            assert!(Cli::try_parse_from(line).is_err(), "{wrong}");
        }
    }
}

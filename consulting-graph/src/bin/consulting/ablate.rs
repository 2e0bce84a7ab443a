//! `consulting ablate`: measures whether debating helps.

use std::{
    io::{IsTerminal, stderr},
    path::Path,
};

use app_support::{
    plural::counted,
    program::print,
    run_id::{now, run_id},
    run_path::default_dir,
};
use consulting_graph::{
    ablate::{
        Ablation, AblationDir, AblationError, AblationSettings, Arm, ExecuteOptions, Progress,
        new_settings,
    },
    data::Ticker,
    run::new_run::nonce,
};
use serde_json::json;
use tokio::signal::ctrl_c;

use crate::{
    args::AblateArgs,
    error::{CliError, ExitStatus},
    new_run::{choice, config, data},
    output::print_json,
    run_path::find_dir,
};

/// Executes a new ablation or resumes one.
pub(crate) async fn ablate(args: &AblateArgs) -> Result<ExitStatus, CliError> {
    let ablation = match &args.resume {
        Some(dir) => AblationDir::open(find_dir(dir)?)?,
        None => create(args).await?,
    };
    let settings = ablation.settings();
    if !args.quiet {
        let provider = &settings.choice.provider;
        eprintln!(
            "Judging {} {} in {}: about {}, provider {provider}. Results: {}",
            counted(settings.pairs, "pair of moves", "pairs of moves"),
            if settings.repeats == 1 {
                "once".to_owned()
            } else {
                format!("{} times", settings.repeats)
            },
            counted(settings.arms.len(), "arm", "arms"),
            counted(settings.estimated_calls(), "call", "calls"),
            ablation.dir().display()
        );
    }
    let options = ExecuteOptions {
        concurrency: args.concurrency,
        limit: args.limits.limit(),
        call_limits: args.timeouts.call_limits(),
        ..ExecuteOptions::default()
    };
    let mut show = show_progress(args.quiet);
    let result = tokio::select! {
        result = ablation.execute(options, &mut show) => result,
        _ = ctrl_c() => {
            let dir = ablation.dir().display();
            eprintln!("\nInterrupted. No results were lost. To resume, run: consulting ablate --resume {dir}");
            return Ok(ExitStatus::Interrupted);
        }
    };
    let result = result?;
    print_result(&result, ablation.dir(), args)?;
    if result.is_incomplete() {
        let dir = ablation.dir().display();
        let raise = if ablation.settings().limit.is_unlimited() {
            ""
        } else {
            "\nIf the budget is exhausted, raise it with --max-tokens N or --max-cost DOLLARS"
        };
        eprintln!(
            "The ablation is incomplete. To try again, run: consulting ablate --resume {dir}{raise}"
        );
        return Ok(ExitStatus::Incomplete);
    }
    Ok(ExitStatus::Success)
}

async fn create(args: &AblateArgs) -> Result<AblationDir, CliError> {
    let ticker = Ticker::parse(args.ticker.as_deref().unwrap_or_default())?;
    let choice = choice(&args.models);
    let is_default =
        |arm: &Arm| *arm != Arm::Mixed || choice.is_scripted() || args.critic_model.is_some();
    let mut arms = match args.arms.as_slice() {
        [] => Arm::ALL.into_iter().filter(is_default).collect(),
        chosen => chosen.to_vec(),
    };
    arms.sort_unstable();
    arms.dedup();
    let settings = AblationSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ticker: ticker.to_string(),
        data: data(&args.source, now().date_naive())?,
        nonce: nonce(&choice)?,
        choice,
        critic_model: args.critic_model.clone(),
        critics: args.critics,
        arms,
        pairs: args.moves.into(),
        repeats: args.repeats.into(),
        limit: args.limits.limit(),
        config_toml: config(&args.config())?,
    };
    let settings = new_settings(settings, args.answer_tokens)?;
    let id = run_id(&format!("ablate-{}", ticker.slug()))?;
    let dir = args.out.clone().unwrap_or_else(|| default_dir(&id));
    Ok(AblationDir::create(dir, settings).await?)
}

/// Returns a function that shows the progress: continuously on a terminal, and every 10 % elsewhere.
fn show_progress(quiet: bool) -> impl FnMut(Progress) + Send {
    let is_terminal = stderr().is_terminal();
    move |Progress { ended, failed, total }: Progress| {
        if quiet {
            return;
        }
        let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let line = format!("{ended} of {total} judgements{failures}");
        let tenth = (total / 10).max(1);
        if is_terminal {
            eprint!("\r{line}{}", if ended == total { "\n" } else { "" });
        } else if ended.is_multiple_of(tenth) || ended == total {
            eprintln!("{line}");
        }
    }
}

fn print_result(result: &Ablation, dir: &Path, args: &AblateArgs) -> Result<(), CliError> {
    if args.json {
        return print_json(&json!({ "folder": dir, "ablation": result }), false);
    }
    let mut text = String::new();
    if result.critics.is_some() {
        text += "SCRIPTED CRITICS: a program made up all answers. This says nothing about real models.\n";
    }
    for it in &result.contrasts {
        let difference = it.accuracy;
        text += &format!(
            "{:<72} {} ({:+.3}, {:+.3} to {:+.3}, p = {:.5})\n",
            it.question,
            it.decision.label(),
            difference.mean,
            difference.low,
            difference.high,
            it.p_value
        );
    }
    text += &format!("Report      {}\n", dir.join("report.html").display());
    text += &format!("            {}\n", dir.join("report.md").display());
    Ok(print(&text)?)
}

impl From<AblationError> for CliError {
    fn from(error: AblationError) -> Self {
        match error {
            AblationError::Run(error) => Self::Run(error),
            error => Self::Ablation(error),
        }
    }
}

//! Creates a run from the command-line arguments.

use std::{
    fs,
    path::{self, Path, PathBuf},
};

use app_support::{
    files::{self, FileError},
    run_id::{now, run_id},
    run_path::default_dir,
};
use chrono::NaiveDate;
use consulting_graph::{
    config::DEFAULT,
    data::{DataOrigin, DataSource, Ticker, edgar::Downloader},
    models::ModelChoice,
    run::{Run, RunConfig, RunError, new_run},
};

use crate::{
    args::{ConfigArgs, DataArgs, DataKind, ModelArgs, RunArgs},
    error::CliError,
};

/// Creates a run from the arguments of `consulting run`.
pub(crate) async fn create(args: &RunArgs) -> Result<Run, CliError> {
    let ticker = Ticker::parse(&args.ticker)?;
    let data = data(&args.source, now().date_naive())?;
    let choice = choice(&args.models);
    let config_toml = config(&args.config)?;
    let in_file = |problem| match (problem, &args.config.config) {
        (RunError::Config(problem), Some(path)) => CliError::Config { path: path.clone(), problem },
        (problem, _) => problem.into(),
    };
    let config =
        new_run::validate(&config_toml, &choice, args.execution.limits.limit()).map_err(in_file)?;
    let choice = choice.with_context_sizes(&config).await;
    let run_id = run_id(&ticker.slug())?;
    let nonce = new_run::nonce(&choice)?;
    let dir = args.out.clone().unwrap_or_else(|| default_dir(&run_id));
    let run_config = RunConfig {
        run_id,
        ticker: ticker.to_string(),
        data,
        choice,
        baseline: args.baseline,
        review: args.review,
        nonce,
        config_toml,
    };
    Ok(Run::create(dir, run_config)?)
}

/// Returns the source of the company data.
pub(crate) fn data(args: &DataArgs, today: NaiveDate) -> Result<DataSource, CliError> {
    let (dir, as_of) = (args.data_dir.clone(), args.as_of.unwrap_or(today));
    let default = if dir.is_some() { DataKind::Dir } else { DataKind::Included };
    let data = args.data.unwrap_or(default);
    if let (DataKind::Edgar, Some(contact)) = (data, &args.contact) {
        let cache = dir.unwrap_or_else(|| PathBuf::from("edgar"));
        // The path must be absolute, because a run can be resumed from any directory. The directory may not exist
        // yet.
        let cache = path::absolute(&cache).map_err(FileError::at(&cache))?;
        let downloader = Downloader::new(contact, cache);
        downloader.check_contact()?;
        return Ok(DataSource { origin: DataOrigin::EdgarOnline(downloader), as_of });
    }
    let origin = match (data, dir) {
        (DataKind::Included, None) => DataOrigin::Included,
        (DataKind::Synthetic, None) => DataOrigin::Synthetic,
        (DataKind::Included, Some(_)) => return Err(CliError::UnusedDataDir("included")),
        (DataKind::Synthetic, Some(_)) => return Err(CliError::UnusedDataDir("synthetic")),
        (DataKind::Edgar, Some(dir)) => DataOrigin::Edgar { folder: canonical_dir(&dir)? },
        (DataKind::Dir, Some(dir)) => DataOrigin::Dir { folder: canonical_dir(&dir)? },
        (DataKind::Edgar, None) => return Err(CliError::MissingDataDir("edgar")),
        (DataKind::Dir, None) => return Err(CliError::MissingDataDir("dir")),
    };
    if args.contact.is_some() {
        return Err(CliError::UnusedContact);
    }
    Ok(DataSource { origin, as_of })
}

/// Returns the canonical path of a directory. A relative path would not work, because a run can be resumed from any
/// directory.
fn canonical_dir(dir: &Path) -> Result<PathBuf, CliError> {
    Ok(fs::canonicalize(dir).map_err(FileError::at(dir))?)
}

/// Returns the provider and model that the arguments select.
pub(crate) fn choice(args: &ModelArgs) -> ModelChoice {
    let environment = ModelChoice::from_env();
    ModelChoice {
        provider: args.provider.clone().unwrap_or_else(|| environment.provider.clone()),
        model: args.model.clone(),
        seed: args.seed,
        answer_ms: args.answer_ms,
        ..environment
    }
}

/// Returns the text of the configuration file. `--rounds` replaces the number of rounds in it.
pub(crate) fn config(args: &ConfigArgs) -> Result<String, CliError> {
    let text = match &args.config {
        Some(path) => files::read(path)?,
        None => DEFAULT.to_owned(),
    };
    Ok(match args.rounds {
        Some(rounds) => new_run::with_rounds(&text, rounds),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::{DataArgs, DataOrigin, data};
    use crate::args::DataKind;

    #[test]
    fn data_sources_are_derived_from_the_arguments() {
        let today = "2026-11-15".parse().unwrap();
        let run_config = |source: Option<DataKind>, dir: Option<&str>| {
            let data_dir = dir.map(Into::into);
            data(&DataArgs { data: source, data_dir, contact: None, as_of: None }, today)
        };
        let contact = Some("Ada Doe ada@example.org".to_owned());
        let with_contact = |source| {
            data(
                &DataArgs { data: source, data_dir: None, contact: contact.clone(), as_of: None },
                today,
            )
        };
        let fetched = with_contact(Some(DataKind::Edgar)).unwrap().origin;
        assert!(matches!(fetched, DataOrigin::EdgarOnline(it) if it.cache.is_absolute()));
        assert!(with_contact(None).is_err());
        assert_eq!(run_config(None, None).unwrap().origin, DataOrigin::Included);
        let synthetic = run_config(Some(DataKind::Synthetic), None).unwrap();
        assert_eq!(synthetic.origin, DataOrigin::Synthetic);
        assert!(matches!(run_config(None, Some("/")).unwrap().origin, DataOrigin::Dir { .. }));
        for (source, dir) in [
            (DataKind::Edgar, None),
            (DataKind::Synthetic, Some("/")),
            (DataKind::Included, Some("/")),
            (DataKind::Dir, Some("/nowhere/at/all")),
        ] {
            assert!(run_config(Some(source), dir).is_err(), "{source:?}");
        }
    }
}

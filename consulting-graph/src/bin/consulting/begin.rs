//! From what was typed to what a run is given.

use std::{
    fs,
    path::{self, Path, PathBuf},
};

use chrono::NaiveDate;
use consulting_graph::{
    config::DEFAULT,
    data::{DataSource, From, Ticker, edgar::Online},
    models::Choice,
    run::{Given, Run, RunProblem, new},
};

use crate::{
    args::{CompanyArgs, ConfigArgs, Data, RunArgs, VoiceArgs},
    folder,
    problem::{Problem, with},
};

/// Makes the run that was asked for.
pub(crate) fn begin(args: &RunArgs) -> Result<Run, Problem> {
    let ticker = Ticker::parse(&args.ticker)?;
    let data = data(&args.company, new::now().date_naive())?;
    let choice = choice(&args.voice);
    let config = config(&args.config)?;
    let in_file = |problem| match (problem, &args.config.config) {
        (RunProblem::Config(problem), Some(path)) => {
            Problem::Config { path: path.clone(), problem }
        }
        (problem, _) => problem.into(),
    };
    new::check(&config, &choice, args.going.limit()).map_err(in_file)?;
    let run_id = new::run_id(&ticker)?;
    let nonce = new::nonce(&choice)?;
    let folder = args.out.clone().unwrap_or_else(|| folder::of(&run_id));
    let given = Given {
        run_id,
        ticker: ticker.to_string(),
        data,
        choice,
        baseline: args.baseline,
        review: args.review,
        nonce,
        config,
    };
    Ok(Run::create(folder, given)?)
}

/// Where the company is read from.
pub(crate) fn data(args: &CompanyArgs, today: NaiveDate) -> Result<DataSource, Problem> {
    let (folder, as_of) = (args.data_dir.clone(), args.as_of.unwrap_or(today));
    let default = if folder.is_some() { Data::Dir } else { Data::Synthetic };
    let data = args.data.unwrap_or(default);
    if let (Data::Edgar, Some(contact)) = (data, &args.contact) {
        let cache = folder.unwrap_or_else(|| PathBuf::from("edgar"));
        // A run is gone on with from anywhere; the folder may not be there yet.
        let cache = path::absolute(&cache).map_err(with(&cache))?;
        let online = Online::new(contact, cache);
        online.check()?;
        return Ok(DataSource { from: From::EdgarOnline(online), as_of });
    }
    let from = match (data, folder) {
        (Data::Synthetic, None) => From::Synthetic,
        (Data::Synthetic, Some(_)) => return Err(Problem::NeedlessDataDir),
        (Data::Edgar, Some(folder)) => From::Edgar { folder: readable(&folder)? },
        (Data::Dir, Some(folder)) => From::Dir { folder: readable(&folder)? },
        (Data::Edgar, None) => return Err(Problem::NoDataDir("edgar")),
        (Data::Dir, None) => return Err(Problem::NoDataDir("dir")),
    };
    if args.contact.is_some() {
        return Err(Problem::NeedlessContact);
    }
    Ok(DataSource { from, as_of })
}

/// The folder's full name: a run is gone on with from anywhere.
fn readable(folder: &Path) -> Result<PathBuf, Problem> {
    fs::canonicalize(folder).map_err(with(folder))
}

/// Who speaks.
pub(crate) fn choice(args: &VoiceArgs) -> Choice {
    let found = Choice::by_environment();
    Choice {
        provider: args.provider.clone().unwrap_or(found.provider),
        model: args.model.clone(),
        seed: args.seed,
        answer_ms: args.answer_ms,
    }
}

/// The configuration as it stands in its file, or with other rounds.
pub(crate) fn config(args: &ConfigArgs) -> Result<String, Problem> {
    let text = match &args.config {
        Some(path) => fs::read_to_string(path).map_err(with(path))?,
        None => DEFAULT.to_owned(),
    };
    Ok(match args.rounds {
        Some(rounds) => new::with_rounds(&text, rounds),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::{CompanyArgs, From, data};
    use crate::args::Data;

    #[test]
    fn a_folder_is_read_from_and_nothing_else() {
        let today = "2026-11-15".parse().unwrap();
        let given = |source: Option<Data>, folder: Option<&str>| {
            let data_dir = folder.map(Into::into);
            data(&CompanyArgs { data: source, data_dir, contact: None, as_of: None }, today)
        };
        let contact = Some("Ada Doe ada@example.org".to_owned());
        let online = |source| {
            data(
                &CompanyArgs {
                    data: source,
                    data_dir: None,
                    contact: contact.clone(),
                    as_of: None,
                },
                today,
            )
        };
        let fetched = online(Some(Data::Edgar)).unwrap().from;
        assert!(matches!(fetched, From::EdgarOnline(it) if it.cache.is_absolute()));
        assert!(online(None).is_err());
        assert_eq!(given(None, None).unwrap().from, From::Synthetic);
        assert!(matches!(given(None, Some("/")).unwrap().from, From::Dir { .. }));
        for (source, folder) in [
            (Data::Edgar, None),
            (Data::Synthetic, Some("/")),
            (Data::Dir, Some("/nowhere/at/all")),
        ] {
            assert!(given(Some(source), folder).is_err(), "{source:?}");
        }
    }
}

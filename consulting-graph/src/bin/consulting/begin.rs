//! From what was typed to what a run is given.

use std::{
    fs,
    path::{self, Path, PathBuf},
    time::SystemTime,
};

use chrono::{DateTime, NaiveDate, Utc};
use consulting_graph::{
    config::{Config, DEFAULT},
    data::{DataSource, From, Ticker, edgar::Online},
    models::{Choice, Limit, Models},
    run::{Given, Run, RunProblem},
};
use llm::{RecordMode, Recording};
use sha2::{Digest, Sha256};

use crate::{
    args::{CompanyArgs, ConfigArgs, Data, RunArgs, VoiceArgs},
    folder,
    problem::{Problem, with},
};

/// Makes the run that was asked for.
pub(crate) fn begin(args: &RunArgs) -> Result<Run, Problem> {
    let ticker = Ticker::parse(&args.ticker)?;
    let data = data(&args.company, now().date_naive())?;
    let choice = choice(&args.voice);
    let config = config(&args.config)?;
    check(&config, &choice)?;
    let run_id = run_id(&ticker)?;
    let nonce = nonce(&choice)?;
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

/// Sees that everybody can speak, before anything is left behind. A model from a file is not loaded for that.
fn check(config: &str, choice: &Choice) -> Result<(), Problem> {
    let config = Config::parse(config).map_err(RunProblem::from)?;
    if choice.provider != "local" {
        let nowhere = Recording::open("", RecordMode::Live).map_err(RunProblem::from)?;
        Models::new(&config, choice.clone(), None, Limit::default(), &nowhere, 0)
            .map_err(RunProblem::from)?;
    }
    Ok(())
}

/// An id for a new run, like `nvda-20261115-121630-4f1c`.
pub(crate) fn run_id(ticker: &Ticker) -> Result<String, Problem> {
    Ok(format!("{}-{}-{}", ticker.slug(), now().format("%Y%m%d-%H%M%S"), chance(2)?))
}

fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

/// Where the company is read from.
fn data(args: &CompanyArgs, today: NaiveDate) -> Result<DataSource, Problem> {
    let (folder, as_of) = (args.data_dir.clone(), args.as_of.unwrap_or(today));
    let default = if folder.is_some() { Data::Dir } else { Data::Synthetic };
    let data = args.data.unwrap_or(default);
    if let (Data::Edgar, Some(contact)) = (data, &args.contact) {
        let cache = folder.unwrap_or_else(|| PathBuf::from("edgar"));
        // A run is gone on with from anywhere; the folder may not be there yet.
        let cache = path::absolute(&cache).map_err(with(&cache))?;
        return Ok(DataSource { from: From::EdgarOnline(Online::new(contact, cache)), as_of });
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
fn choice(args: &VoiceArgs) -> Choice {
    let found = Choice::by_environment();
    Choice {
        provider: args.provider.clone().unwrap_or(found.provider),
        model: args.model.clone(),
        seed: args.seed,
    }
}

/// The configuration as it stands in its file, or with other rounds.
pub(crate) fn config(args: &ConfigArgs) -> Result<String, Problem> {
    let text = match &args.config {
        Some(path) => fs::read_to_string(path).map_err(with(path))?,
        None => DEFAULT.to_owned(),
    };
    Ok(match args.rounds {
        Some(rounds) => with_rounds(&text, rounds),
        None => text,
    })
}

/// The configuration with so many rounds, everything else to the letter as it was.
fn with_rounds(text: &str, rounds: u32) -> String {
    let is_rounds = |line: &str| {
        let rest = line.trim_start().strip_prefix("rounds");
        rest.is_some_and(|it| it.trim_start().starts_with('='))
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            break;
        }
        if is_rounds(line) {
            let comment = line.find('#').map_or("\n", |it| &line[it..]);
            let blank = if comment.starts_with('#') { " " } else { "" };
            let end = at + line.len();
            return format!("{}rounds = {rounds}{blank}{comment}{}", &text[..at], &text[end..]);
        }
        at += line.len();
    }
    format!("rounds = {rounds}\n{text}")
}

/// What untrusted text stands between. Who writes such text for real must not know it; a scripted model's runs are to
/// repeat.
fn nonce(choice: &Choice) -> Result<String, Problem> {
    if !choice.is_scripted() {
        return chance(8);
    }
    let digest = Sha256::digest(format!("scripted run {}", choice.seed).as_bytes());
    Ok(hex(&digest[..8]))
}

/// So many bytes nobody can guess, as text.
pub(crate) fn chance(bytes: usize) -> Result<String, Problem> {
    let mut filled = vec![0; bytes];
    getrandom::fill(&mut filled).map_err(Problem::Chance)?;
    Ok(hex(&filled))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Choice, CompanyArgs, Config, DEFAULT, From, data, nonce, with_rounds};
    use crate::args::Data;

    #[test]
    fn only_the_rounds_change() {
        let text = with_rounds(DEFAULT, 3);
        assert_eq!(text, DEFAULT.replace("\nrounds = 10\n", "\nrounds = 3\n"));
        assert_eq!(Config::parse(&text).unwrap().rounds, 3);
        assert_eq!(with_rounds("rounds=9 # long\r\nx", 2), "rounds = 2 # long\r\nx");
        let missing = "top_k = 3\n[a]\nrounds = 1\n";
        assert_eq!(with_rounds(missing, 2), format!("rounds = 2\n{missing}"));
    }

    #[test]
    fn scripted_runs_repeat_and_real_ones_cannot_be_guessed() {
        let choice =
            |provider: &str, seed| Choice { provider: provider.to_owned(), model: None, seed };
        let of = |provider, seed| nonce(&choice(provider, seed)).unwrap();
        assert_eq!(of("scripted", 1), of("scripted", 1));
        assert_ne!(of("scripted", 1), of("scripted", 2));
        assert_ne!(of("anthropic", 1), of("anthropic", 1));
    }

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

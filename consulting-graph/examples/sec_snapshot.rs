//! Writes the snapshot of filed figures that is part of the program, `data/sec-facts.json`.
//!
//! ```sh
//! # DIR contains companyfacts files named after the ticker, such as NVDA.json. The SEC serves them at
//! # https://data.sec.gov/api/xbrl/companyfacts/CIK##########.json. To include the filings of form 8-K, add the files
//! # at https://data.sec.gov/submissions/CIK##########.json, named after the ticker, such as NVDA-submissions.json.
//! cargo run -p consulting-graph --example sec_snapshot -- DIR NVDA AAPL GOOGL MRVL SNOW > consulting-graph/data/sec-facts.json
//! ```

use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use consulting_graph::data::{
    Ticker,
    snapshot::{self, SecFiles},
};

const USAGE: &str = "usage: sec_snapshot DIR TICKER...";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, tickers @ ..] = args.as_slice() else { return Err(USAGE.into()) };
    if tickers.is_empty() {
        return Err(USAGE.into());
    }
    let dir = PathBuf::from(dir);
    let mut files = Vec::new();
    for ticker in tickers {
        let ticker = Ticker::parse(ticker)?;
        let companyfacts = read(&dir.join(format!("{ticker}.json")))?;
        let submissions = dir.join(format!("{ticker}-submissions.json"));
        let submissions = submissions.is_file().then(|| read(&submissions)).transpose()?;
        files.push(SecFiles { ticker, companyfacts, submissions });
    }
    Ok(io::stdout().write_all(snapshot::render(&files)?.as_bytes())?)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

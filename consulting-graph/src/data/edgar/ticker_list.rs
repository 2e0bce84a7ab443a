//! The SEC's list of companies, `company_tickers.json`, with tickers and CIK numbers.

use std::collections::BTreeMap;

use serde::Deserialize;
use strsim::levenshtein;

use super::super::ticker::Ticker;

/// Maximum number of suggestions for an unknown ticker.
const MAX_SUGGESTIONS: usize = 3;

/// The listed companies, largest first.
pub(super) struct TickerList(Vec<Company>);

#[derive(Deserialize)]
struct Company {
    cik_str: u64,
    ticker: String,
    #[serde(default)]
    title: String,
}

impl TickerList {
    /// Parses the list, a JSON object whose keys are the positions of the companies in the list.
    pub(super) fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let by_position: BTreeMap<String, Company> = serde_json::from_str(json)?;
        let mut companies: Vec<(String, Company)> = by_position.into_iter().collect();
        companies.sort_by_key(|it| it.0.parse().unwrap_or(u64::MAX));
        Ok(Self(companies.into_iter().map(|it| it.1).collect()))
    }

    pub(super) fn cik(&self, ticker: &Ticker) -> Option<u64> {
        // The list uses BRK-B where the exchange uses BRK.B.
        let same = |it: &&Company| it.ticker.replace('-', ".") == ticker.as_str().replace('-', ".");
        self.0.iter().find(same).map(|it| it.cik_str)
    }

    /// Returns suggestions: companies that have a similar ticker or a name that starts with `ticker`.
    pub(super) fn similar(&self, ticker: &Ticker) -> Vec<String> {
        let wanted = ticker.as_str();
        let most = if wanted.len() <= 3 { 1 } else { 2 };
        let distance = |it: &Company| {
            let is_name = wanted.len() >= 3 && it.title.to_uppercase().starts_with(wanted);
            if is_name { 0 } else { levenshtein(&it.ticker, wanted) }
        };
        let mut near: Vec<(usize, &Company)> = self.0.iter().map(|it| (distance(it), it)).collect();
        near.retain(|it| it.0 <= most);
        // The sort is stable, so larger companies come first among equally similar ones.
        near.sort_by_key(|it| it.0);
        near.iter()
            .take(MAX_SUGGESTIONS)
            .map(|(_, it)| format!("{} ({})", it.ticker, it.title))
            .collect()
    }
}

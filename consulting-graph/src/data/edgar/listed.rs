//! The SEC's list of companies with their tickers and numbers, `company_tickers.json`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::{Ticker, near::distance};

/// So many companies are proposed for one that is not listed.
const PROPOSED: usize = 3;

/// The companies, the largest first.
pub(super) struct Listed(Vec<Company>);

#[derive(Deserialize)]
struct Company {
    cik_str: u64,
    ticker: String,
    #[serde(default)]
    title: String,
}

impl Listed {
    /// Reads the list: an object whose names are the places of the companies.
    pub(super) fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let by_place: BTreeMap<String, Company> = serde_json::from_str(json)?;
        let mut companies: Vec<(String, Company)> = by_place.into_iter().collect();
        companies.sort_by_key(|it| it.0.parse().unwrap_or(u64::MAX));
        Ok(Self(companies.into_iter().map(|it| it.1).collect()))
    }

    /// The number of a company.
    pub(super) fn cik(&self, ticker: &Ticker) -> Option<u64> {
        // The list writes BRK-B where the exchange writes BRK.B.
        let same = |it: &&Company| it.ticker.replace('-', ".") == ticker.as_str().replace('-', ".");
        self.0.iter().find(same).map(|it| it.cik_str)
    }

    /// The companies that somebody may have meant, with their names: a ticker that is nearly the same, or a name that
    /// begins so.
    pub(super) fn similar(&self, ticker: &Ticker) -> Vec<String> {
        let wanted = ticker.as_str();
        let most = if wanted.len() <= 3 { 1 } else { 2 };
        let distance = |it: &Company| {
            let is_name = wanted.len() >= 3 && it.title.to_uppercase().starts_with(wanted);
            if is_name { 0 } else { distance(&it.ticker, wanted) }
        };
        let mut near: Vec<(usize, &Company)> = self.0.iter().map(|it| (distance(it), it)).collect();
        near.retain(|it| it.0 <= most);
        // Of equally near ones the larger company comes first.
        near.sort_by_key(|it| it.0);
        near.iter().take(PROPOSED).map(|(_, it)| format!("{} ({})", it.ticker, it.title)).collect()
    }
}

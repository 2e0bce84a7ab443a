//! What the SEC serves, fetched once and kept in a folder.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Response, StatusCode, Url,
    header::{HeaderValue, USER_AGENT},
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use tokio::time::{Instant, sleep_until, timeout};

use super::{super::Ticker, EdgarError, LIST, facts_file, listed::Listed};

/// The SEC allows ten requests a second.
const BETWEEN_REQUESTS: Duration = Duration::from_millis(100);

/// What the SEC serves, fetched once and kept in a folder.
///
/// A file that is in the folder is not fetched again: delete it there to have it anew, `company_tickers.json` for new
/// companies and `CIK….json` for new filings.
///
/// The addresses and paths are those that the SEC documents. The tests talk to a server of their own, so they say
/// nothing about what the SEC's servers answer today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Online {
    /// Who asks, with an address for mail. The SEC turns away whoever does not say.
    pub user_agent: String,
    /// The folder.
    pub cache: PathBuf,
    /// Whom to ask.
    #[serde(default)]
    pub hosts: Hosts,
    /// How long one file may take.
    #[serde(skip, default = "patience")]
    pub patience: Duration,
    /// How large one file may be, in bytes. The largest companies' have some ten million.
    #[serde(skip, default = "most_bytes")]
    pub most_bytes: usize,
}

/// The addresses of the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Where `files/company_tickers.json` is.
    pub files: String,
    /// Where `api/xbrl/companyfacts` is.
    pub data: String,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { files: "https://www.sec.gov".to_owned(), data: "https://data.sec.gov".to_owned() }
    }
}

fn patience() -> Duration {
    Duration::from_secs(120)
}

fn most_bytes() -> usize {
    128 << 20
}

impl Online {
    /// The SEC's own servers, with a folder for what they answer.
    pub fn new(user_agent: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        Self {
            user_agent: user_agent.into(),
            cache: cache.into(),
            hosts: Hosts::default(),
            patience: patience(),
            most_bytes: most_bytes(),
        }
    }

    /// Makes sure that a company's facts are in the folder, for [`super::read`] to read.
    pub async fn fetch(&self, ticker: &Ticker) -> Result<(), EdgarError> {
        let agent = self.agent()?;
        let problem = |source| EdgarError::Io { path: self.cache.clone(), source };
        tokio::fs::create_dir_all(&self.cache).await.map_err(problem)?;
        let list = self.cache.join(LIST);
        let address = format!("{}/files/{LIST}", self.hosts.files.trim_end_matches('/'));
        self.ensure(&list, &address, &agent).await?;
        let json = tokio::fs::read_to_string(&list).await;
        let json = json.map_err(|source| EdgarError::Io { path: list.clone(), source })?;
        let listed = Listed::parse(&json)
            .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
        let Some(cik) = listed.cik(ticker) else {
            let similar = listed.similar(ticker);
            return Err(EdgarError::NotListed { ticker: ticker.clone(), similar, list });
        };
        let file = facts_file(cik);
        let host = self.hosts.data.trim_end_matches('/');
        let address = format!("{host}/api/xbrl/companyfacts/{file}");
        self.ensure(&self.cache.join(file), &address, &agent).await
    }

    /// Sees that somebody is named to whom the SEC can write.
    pub fn check(&self) -> Result<(), EdgarError> {
        self.agent().map(drop)
    }

    /// The header that says who asks.
    fn agent(&self) -> Result<HeaderValue, EdgarError> {
        let is_address = |word: &str| {
            let word = word.trim_matches(|it: char| !it.is_alphanumeric());
            let (name, host) = word.split_once('@').unwrap_or_default();
            !name.is_empty() && host.split('.').filter(|it| !it.is_empty()).count() > 1
        };
        let value = self.user_agent.trim();
        let header = HeaderValue::from_str(value).ok();
        let header = header.filter(|_| value.split_whitespace().any(is_address));
        header.ok_or_else(|| EdgarError::Contact(self.user_agent.clone()))
    }

    async fn ensure(
        &self,
        path: &Path,
        address: &str,
        agent: &HeaderValue,
    ) -> Result<(), EdgarError> {
        if path.is_file() {
            return Ok(());
        }
        let got = timeout(self.patience, self.get(address, agent)).await;
        let late = |_| Err(format!("no whole answer within {:?}", self.patience));
        let problem = |problem| EdgarError::Fetch { address: address.to_owned(), problem };
        let bytes = got.unwrap_or_else(late).map_err(problem)?;
        keep(path, &bytes).await.map_err(|source| EdgarError::Io { path: path.to_owned(), source })
    }

    async fn get(&self, address: &str, agent: &HeaderValue) -> Result<Vec<u8>, String> {
        let address = Url::parse(address).map_err(|error| error.to_string())?;
        let client = llm::http_client(&address).map_err(|error| error.to_string())?;
        wait_for_turn().await;
        let asked = client.get(address).header(USER_AGENT, agent).send().await;
        let answer = asked.map_err(|error| in_full(&error))?;
        if let Some(problem) = refusal(answer.status()) {
            return Err(problem);
        }
        let bytes = self.body(answer).await?;
        // A page that asks for patience must not be kept as data.
        match serde_json::from_slice::<IgnoredAny>(&bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(format!("the answer is not JSON: {error}")),
        }
    }

    async fn body(&self, mut answer: Response) -> Result<Vec<u8>, String> {
        let too_large = || format!("the answer has more than {} bytes", self.most_bytes);
        let said = answer.content_length().unwrap_or_default();
        if usize::try_from(said).is_ok_and(|it| it > self.most_bytes) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| in_full(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > self.most_bytes {
                return Err(too_large());
            }
        }
        Ok(bytes)
    }
}

/// Waits until the SEC allows one more request of this process.
async fn wait_for_turn() {
    static NEXT: Mutex<Option<Instant>> = Mutex::new(None);
    let turn = {
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let turn = next.map_or(now, |it| it.max(now));
        *next = Some(turn + BETWEEN_REQUESTS);
        turn
    };
    sleep_until(turn).await;
}

/// What a status means, unless there is an answer.
fn refusal(status: StatusCode) -> Option<String> {
    let why = match status {
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
            "the SEC turns away those who ask too often or do not say who they are; try again in ten minutes"
        }
        StatusCode::NOT_FOUND => {
            "the SEC has no such file; funds and some foreign companies file no facts"
        }
        status if status.is_success() => return None,
        _ => "try again later",
    };
    Some(format!("{status}: {why}"))
}

/// An error with its causes, which say what went wrong.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Writes a file as a whole or not at all.
async fn keep(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let part = path.with_extension(format!("{process}-{number}.part"));
    tokio::fs::write(&part, bytes).await?;
    tokio::fs::rename(&part, path).await
}

//! Downloads SEC data into a local cache.

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

use super::{
    super::ticker::Ticker,
    error::EdgarError,
    file_names::{TICKER_LIST_FILE, facts_file, submissions_file},
    ticker_list::TickerList,
};

/// Minimum interval between requests. The SEC allows ten requests per second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Downloads SEC data into a cache directory.
///
/// A cached file is never downloaded again. To refresh a file, delete it from the cache: `company_tickers.json` to find
/// newly listed companies, `CIK….json` to get a company's new filings, `CIK…-submissions.json` to get its new 8-K
/// filings.
///
/// The URLs are taken from the SEC's documentation. The tests use a local server, so they do not verify how the SEC's
/// servers behave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downloader {
    /// Contact sent as the `User-Agent` of every request. It must contain an email address, because the SEC rejects
    /// requests without one.
    pub user_agent: String,
    pub cache: PathBuf,
    /// Base URLs of the servers to download from.
    #[serde(default)]
    pub hosts: Hosts,
    #[serde(skip, default = "default_timeout")]
    pub timeout: Duration,
    /// Maximum size of one file in bytes. The files of the largest companies have about ten million bytes.
    #[serde(skip, default = "default_max_bytes")]
    pub max_bytes: usize,
}

/// Base URLs of the two servers that provide the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Base URL of the server that provides `files/company_tickers.json`.
    pub files: String,
    /// Base URL of the server that provides `api/xbrl/companyfacts` and `submissions`.
    pub data: String,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { files: "https://www.sec.gov".to_owned(), data: "https://data.sec.gov".to_owned() }
    }
}

fn default_timeout() -> Duration {
    Duration::from_secs(120)
}

fn default_max_bytes() -> usize {
    128 << 20
}

impl Downloader {
    /// Creates a downloader for the SEC's servers.
    pub fn new(user_agent: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        Self {
            user_agent: user_agent.into(),
            cache: cache.into(),
            hosts: Hosts::default(),
            timeout: default_timeout(),
            max_bytes: default_max_bytes(),
        }
    }

    /// Downloads a company's data into the cache unless it is already there. [`super::read`] can then read it.
    ///
    /// A company can be read without the list of its filings, so a failed download of that list is not an error.
    /// Returns a warning in that case.
    pub async fn fetch(&self, ticker: &Ticker) -> Result<Option<String>, EdgarError> {
        let agent = self.user_agent_header()?;
        let problem = |source| EdgarError::Io { path: self.cache.clone(), source };
        tokio::fs::create_dir_all(&self.cache).await.map_err(problem)?;
        let list = self.cache.join(TICKER_LIST_FILE);
        let address =
            format!("{}/files/{TICKER_LIST_FILE}", self.hosts.files.trim_end_matches('/'));
        self.download_if_missing(&list, &address, &agent).await?;
        let json = tokio::fs::read_to_string(&list).await;
        let json = json.map_err(|source| EdgarError::Io { path: list.clone(), source })?;
        let listed = TickerList::parse(&json)
            .map_err(|source| EdgarError::Json { ticker: ticker.clone(), source })?;
        let Some(cik) = listed.cik(ticker) else {
            let similar = listed.similar(ticker);
            return Err(EdgarError::NotListed { ticker: ticker.clone(), similar, list });
        };
        let file = facts_file(cik);
        let host = self.hosts.data.trim_end_matches('/');
        let address = format!("{host}/api/xbrl/companyfacts/{file}");
        self.download_if_missing(&self.cache.join(&file), &address, &agent).await?;
        let address = format!("{host}/submissions/{file}");
        let path = self.cache.join(submissions_file(file.trim_end_matches(".json")));
        let downloaded = self.download_if_missing(&path, &address, &agent).await;
        Ok(downloaded.err().map(|error| format!("8-K filings are missing: {error}")))
    }

    /// Checks that the contact has an email address.
    pub fn check_contact(&self) -> Result<(), EdgarError> {
        self.user_agent_header().map(drop)
    }

    /// Returns the `User-Agent` header with the contact, or an error if the contact has no email address.
    fn user_agent_header(&self) -> Result<HeaderValue, EdgarError> {
        let is_address = |word: &str| {
            let word = word.trim_matches(|it: char| !it.is_alphanumeric());
            let (name, host) = word.split_once('@').unwrap_or_default();
            !name.is_empty() && host.split('.').filter(|it| !it.is_empty()).count() > 1
        };
        let value = self.user_agent.trim();
        let header = HeaderValue::from_str(value).ok();
        let header = header.filter(|_| value.split_whitespace().any(is_address));
        header.ok_or_else(|| EdgarError::InvalidContact(self.user_agent.clone()))
    }

    async fn download_if_missing(
        &self,
        path: &Path,
        address: &str,
        agent: &HeaderValue,
    ) -> Result<(), EdgarError> {
        if path.is_file() {
            return Ok(());
        }
        let result = timeout(self.timeout, self.get(address, agent)).await;
        let timed_out = |_| Err(format!("no complete response within {:?}", self.timeout));
        let problem = |problem| EdgarError::Fetch { address: address.to_owned(), problem };
        let bytes = result.unwrap_or_else(timed_out).map_err(problem)?;
        write_atomically(path, &bytes)
            .await
            .map_err(|source| EdgarError::Io { path: path.to_owned(), source })
    }

    async fn get(&self, address: &str, agent: &HeaderValue) -> Result<Vec<u8>, String> {
        let address = Url::parse(address).map_err(|error| error.to_string())?;
        let client = llm::http_client(&address).map_err(|error| error.to_string())?;
        wait_for_rate_limit().await;
        let sent = client.get(address).header(USER_AGENT, agent).send().await;
        let response = sent.map_err(|error| error_chain(&error))?;
        if let Some(problem) = status_error(response.status()) {
            return Err(problem);
        }
        let bytes = self.body(response).await?;
        // The SEC may send an HTML page with a success status; do not cache it as data.
        match serde_json::from_slice::<IgnoredAny>(&bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(format!("the response is not JSON: {error}")),
        }
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, String> {
        let too_large = || format!("the response is larger than {} bytes", self.max_bytes);
        let declared = response.content_length().unwrap_or_default();
        if usize::try_from(declared).is_ok_and(|it| it > self.max_bytes) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| error_chain(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > self.max_bytes {
                return Err(too_large());
            }
        }
        Ok(bytes)
    }
}

/// Waits until this process may send the next request.
async fn wait_for_rate_limit() {
    static NEXT: Mutex<Option<Instant>> = Mutex::new(None);
    let turn = {
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let turn = next.map_or(now, |it| it.max(now));
        *next = Some(turn + REQUEST_INTERVAL);
        turn
    };
    sleep_until(turn).await;
}

/// Returns an explanation of an unsuccessful status, or `None` for a successful one.
fn status_error(status: StatusCode) -> Option<String> {
    let why = match status {
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
            "the SEC rejects clients that send too many requests or no valid contact; try again in ten minutes"
        }
        StatusCode::NOT_FOUND => {
            "the SEC has no such file; funds and some foreign companies do not file companyfacts"
        }
        status if status.is_success() => return None,
        _ => "try again later",
    };
    Some(format!("{status}: {why}"))
}

/// Formats an error with all its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Writes a file atomically: writes a temporary file in the same directory, then renames it.
async fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let part = path.with_extension(format!("{process}-{number}.part"));
    tokio::fs::write(&part, bytes).await?;
    tokio::fs::rename(&part, path).await
}

//! Finds the real models that are available, and tests structured output with them.
//!
//! Real models take minutes, so they are used only on request: `GRAPH_LOCAL_MODEL` is the path of a GGUF file,
//! `GRAPH_NIGHTLY=1` selects the file that `cargo xtask model` downloads, and `GRAPH_LLAMA_URL` is the URL of a
//! llama.cpp server.

use std::{
    env,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex},
    time::Instant,
};

use async_trait::async_trait;
use llm::{
    Backoff, Budget, Error, Finish, Listener, Llm, LocalModel, Model, ModelId, ParseMethod,
    Request, Response, Usage,
};
use serde::{Deserialize, Serialize};

/// Scores of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Scores {
    #[schemars(range(min = 1, max = 10))]
    pub(crate) impact: u8,
    #[schemars(range(min = 1, max = 10))]
    pub(crate) feasibility: u8,
    #[schemars(range(min = 1, max = 10))]
    pub(crate) risk_adjusted_return: u8,
    #[schemars(range(min = 1, max = 10))]
    pub(crate) strategic_alignment: u8,
    #[schemars(length(max = 80))]
    pub(crate) reasoning: String,
}

impl Scores {
    pub(crate) fn all(&self) -> [u8; 4] {
        [self.impact, self.feasibility, self.risk_adjusted_return, self.strategic_alignment]
    }
}

pub(crate) const PLAN: &str = "A chain of forty bakeries opens at six in the morning instead of eight. \
    A trial in four shops brought 11 % more sales in ten weeks. It needs one more baker a shop, who are hard to find.";

/// Returns the available models.
pub(crate) fn models() -> Vec<Llm> {
    static LOCAL: LazyLock<Option<Llm>> = LazyLock::new(local);
    let models: Vec<Llm> = LOCAL.iter().cloned().chain(server()).collect();
    if models.is_empty() {
        eprintln!(
            "SKIPPED: no real model is configured. Run it with \
             `GRAPH_LOCAL_MODEL=$(cargo xtask model | tail -1) cargo test -p llm --features local --test local`"
        );
    }
    models
}

fn local() -> Option<Llm> {
    let nightly = test_support::is_nightly();
    let file = match env::var_os("GRAPH_LOCAL_MODEL") {
        Some(file) => PathBuf::from(file),
        None if nightly => fetched(),
        None => return None,
    };
    let start = Instant::now();
    assert!(file.is_file(), "{} is missing; `cargo xtask model` downloads it", file.display());
    let model = LocalModel::open(file).unwrap().conversations(6).context_window(4_096);
    eprintln!("{} opened in {:?}", model.id(), start.elapsed());
    Some(Llm::new(model))
}

/// Returns the path at which `cargo xtask model` stores the default model.
fn fetched() -> PathBuf {
    test_support::peers::dir().join("models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
}

#[cfg(feature = "http")]
fn server() -> Option<Llm> {
    use std::time::Duration;

    use llm::{Provider, Timeouts};

    let url = env::var("GRAPH_LLAMA_URL").ok()?;
    let minutes = Duration::from_secs(600);
    let timeouts =
        Timeouts { first_byte: minutes, idle: minutes, total: minutes, ..Timeouts::default() };
    let provider = Provider::new("openai-compatible").unwrap().base_url(url);
    Some(provider.model("llama").timeouts(timeouts).build().unwrap())
}

#[cfg(not(feature = "http"))]
fn server() -> Option<Llm> {
    None
}

/// A layer that records the usage of the calls that reach a model.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    inner: Llm,
    pub(crate) calls: Arc<Mutex<Vec<Usage>>>,
}

impl Counted {
    pub(crate) fn new(inner: Llm) -> Self {
        Self { inner, calls: Arc::default() }
    }

    pub(crate) fn sum(&self) -> (usize, Usage) {
        let calls = self.calls.lock().unwrap();
        (calls.len(), calls.iter().copied().sum())
    }
}

#[async_trait]
impl Model for Counted {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let response = self.inner.call(request, listener).await?;
        self.calls.lock().unwrap().push(response.usage.unwrap());
        Ok(response)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_model_returns_scores_as_json() {
    for model in models() {
        let budget = Budget::of_tokens(20_000);
        let counted = Counted::new(model.clone());
        let llm = Llm::new(counted.clone()).retry(Backoff::default()).budget(&budget);
        let request = Request::new(format!(
            "{PLAN}\n\nScore this plan from 1 (bad) to 10 (good), and give your reason in a few words."
        ));
        let request = request.system("You sit on a board of directors.").temperature(0.0);
        let start = Instant::now();
        let scored = llm.generate_json::<Scores>(request.max_tokens(120)).await.unwrap();
        eprintln!("{} in {:?}: {:?}", model.id(), start.elapsed(), scored);
        assert_eq!(scored.method, ParseMethod::Schema);
        assert_eq!(scored.response.finish, Finish::Stop);
        assert!(scored.value.all().iter().all(|it| (1..=10).contains(it)));
        assert!(!scored.value.reasoning.trim().is_empty());
        let (calls, usage) = counted.sum();
        assert_eq!((calls, usage), (1, scored.response.usage.unwrap()));
        assert_eq!(budget.spent().tokens, usage.input + usage.output);
    }
}

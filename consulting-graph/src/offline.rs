//! The offline board: a scripted model that is used when no provider is configured.
//!
//! It builds each answer from the typed task of the call and from phrases in `config/board.toml`. A run without an API
//! key therefore has the same stages as a run with a provider: documents, findings, moves, debates and scores,
//! including occasional answers that are malformed or cite unknown findings. The output is not a judgement and is
//! always labelled as scripted.

mod candidate;
mod debate;
mod document;
mod figures;
mod findings;
mod moves;
mod task;
mod writer;

use std::time::Duration;

use llm::{ErrorKind, Llm, Reply, Request, Role, Scripted};

use self::writer::Writer;
use crate::finding::SingleFinding;

pub(crate) use self::task::{DebatedMove, Task, Work};

/// Name of the model. Its provider is named `scripted`.
pub const MODEL_NAME: &str = "board";

/// Settings of the offline board.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    /// Seed of all random choices.
    pub seed: u64,
    /// Delay before each answer, so that a user can follow the progress of a run.
    pub delay: Duration,
    /// Whether some answers are malformed, cite unknown findings or repeat themselves, as those of real models do.
    pub mistakes: bool,
}

/// Creates the offline board. The same seed, company and configuration produce the same answers.
///
/// ```
/// use llm::Model;
///
/// assert_eq!(consulting_graph::offline::model(7).id().to_string(), "scripted/board");
/// ```
pub fn model(seed: u64) -> Llm {
    Board::new(seed).model()
}

impl Board {
    /// Creates a board that answers without a delay and makes mistakes.
    pub fn new(seed: u64) -> Self {
        Self { seed, delay: Duration::ZERO, mistakes: true }
    }

    pub fn model(self) -> Llm {
        let answer = move |request: &Request| match request.attached::<Task>() {
            Some(task) => Reply::from(self.answer(request, task)),
            None => Reply::failure(
                ErrorKind::BadRequest,
                "the offline board answers only the calls of the pipeline; to ask a model anything else, configure a \
                 provider",
            ),
        };
        Llm::new(Scripted::new(MODEL_NAME, answer).delay(self.delay))
    }

    /// Answers a call. Random choices depend on the seed, the task and the last message, which names the round, but not
    /// on the rest of the prompt, which contains a random nonce.
    fn answer(self, request: &Request, task: &Task) -> String {
        let (agent, messages) = (&task.agent, &request.messages);
        let writer = |topic: &str, turn: u32| {
            let topic = format!("{}\n{}\n{}\n{topic}", self.seed, agent.id, agent.system_prompt);
            Writer::new(topic, turn, &request.prompt(), self.mistakes)
        };
        match &task.work {
            Work::Document { subject, data } => {
                document::write(*subject, data, &writer(&request.prompt(), 0))
            }
            Work::Findings { inference, company, text } => {
                let writer = writer(company.ticker.as_str(), 0);
                json(&findings::draft(*inference, company, text, &writer))
            }
            Work::SingleFinding { inference, company, text, known } => {
                // All requests about a document get the same draft, so that no finding is given twice.
                let topic = format!("{}\n{}", self.seed, company.ticker);
                let writer = Writer::new(topic, 0, "single finding", self.mistakes);
                let draft = findings::draft(*inference, company, text, &writer);
                let other = draft.findings.iter().find(|it| !known.contains(&it.claim));
                json(&other.map(SingleFinding::from).unwrap_or_default())
            }
            Work::Moves { findings } => {
                let is_retry = messages.iter().any(|it| it.role == Role::Assistant);
                let ticker = findings.first().map_or("", |it| it.ticker.as_str());
                json(&moves::draft(&agent.name, findings, is_retry, &writer(ticker, 0)))
            }
            Work::CriticTurn { debated, maker, round } => {
                let (title, maker) = (&debated.draft.title, maker.as_deref());
                let writer = writer(&format!("{title}\n{}", maker.unwrap_or("all")), *round);
                debate::critic_turn(debated, maker.is_none(), messages, writer)
            }
            Work::MakerTurn { debated, round } => {
                let writer = writer(&debated.draft.title, *round);
                debate::maker_turn(debated, &agent.name, messages, writer)
            }
            Work::Summary { debated } => debate::summary(debated, messages),
            Work::Scores { debated, metrics, round } => {
                let title = &debated.draft.title;
                // The thesis states a figure, so that a move is not equally good for all companies.
                let quality = format!("{}\n{title}\n{}", self.seed, debated.draft.thesis);
                let writer = writer(title, *round);
                debate::scores(debated, metrics, *round == 0, messages, &quality, &writer)
            }
        }
    }
}

fn json(answer: &impl serde::Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

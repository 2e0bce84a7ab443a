//! A limit on the cost of model calls.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use graph_core::NodeError;
use llm::{CatalogEntry, Money, Prices, Usage};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError,
    lock::lock,
    message::{AiMessage, count_tokens_approximately},
    model::{ChatModel, ChunkSink, ModelProfile, ModelTool, Prompt, SharedModel},
};

/// Limits the cost of an agent's model calls, in all of its runs. Clones share one budget, so several agents can use
/// it.
///
/// Model calls by other middleware of the agent, such as calls that write summaries or that select or emulate tools,
/// also count, at the same prices. If the models have different prices, set the highest ones.
///
/// Before each call, the middleware reserves the estimated cost: the request, and an answer of
/// [`max_answer`](Self::max_answer) tokens. If the rest of the budget does not cover a call, the call fails with an
/// error named `BudgetExceededError`. Concurrent calls together therefore stay within the limit as long as no call
/// costs more than its estimate. After the call, the reported usage replaces the reservation. A call that fails, is
/// cancelled or has no reported usage is charged its full reservation.
///
/// If other middleware retries calls or switches models, every attempt counts, regardless of the position of the budget
/// among the middleware. A call that other middleware answers itself costs nothing. Calls replayed by a
/// [`RecordReplay`](super::RecordReplay) cost nothing if the budget is added after it.
///
/// ```
/// use graph_agents::middleware::MoneyBudget;
/// use llm::{Money, Prices};
///
/// let dollars = Money::from_dollars;
/// let prices =
///     Prices { input: dollars(3.0), output: dollars(15.0), cached: None, cache_written: None, up_to_input: None };
/// let budget = MoneyBudget::new(dollars(0.50), prices);
/// assert_eq!(budget.spent(), Money::ZERO);
/// ```
#[derive(Clone, Debug)]
pub struct MoneyBudget {
    limit: Money,
    prices: CatalogEntry,
    max_answer: u64,
    account: Arc<Mutex<Account>>,
}

/// Amounts in billionths of a dollar.
#[derive(Debug, Default)]
struct Account {
    spent: u64,
    reserved: u64,
}

impl MoneyBudget {
    /// Default for the number of tokens reserved for an answer.
    const MAX_ANSWER: u64 = 4_096;

    /// Creates a budget for calls to a model with these prices per million tokens.
    pub fn new(limit: Money, prices: Prices) -> Self {
        let prices = CatalogEntry {
            date: String::new(),
            prices: vec![prices],
            context: None,
            temperature: None,
        };
        Self { limit, prices, max_answer: Self::MAX_ANSWER, account: Arc::default() }
    }

    /// Sets the number of tokens to reserve for an answer. The default is 4,096. Set it to the model's limit.
    #[must_use]
    pub fn max_answer(mut self, tokens: u64) -> Self {
        self.max_answer = tokens;
        self
    }

    /// Returns the amount spent so far.
    pub fn spent(&self) -> Money {
        Money::from_nanos(lock(&self.account).spent)
    }

    fn cost(&self, usage: &Usage) -> Result<u64, AgentError> {
        let cost = self.prices.cost(usage).ok_or_else(|| {
            AgentError::named(
                "BudgetExceededError",
                format!(
                    "the price of a request with {} input tokens is unknown; raise or remove `Prices::up_to_input`",
                    usage.input
                ),
            )
        })?;
        Ok(cost.nanos())
    }

    /// Reserves the estimated cost of a call with this number of input tokens.
    fn reserve(&self, input: u64) -> Result<Reservation, AgentError> {
        let usage = Usage { input, output: self.max_answer, ..Usage::default() };
        let amount = self.cost(&usage)?;
        let mut account = lock(&self.account);
        let free =
            self.limit.nanos().saturating_sub(account.spent).saturating_sub(account.reserved);
        if amount > free {
            let dollars = |nanos| Money::from_nanos(nanos).dollars();
            return Err(AgentError::named(
                "BudgetExceededError",
                format!(
                    "the model call may cost ${:.6}, but only ${:.6} of the budget of ${:.6} is left; raise the \
                     budget or shorten the conversation",
                    dollars(amount),
                    dollars(free),
                    self.limit.dollars()
                ),
            ));
        }
        account.reserved += amount;
        Ok(Reservation { amount, charge: amount, account: self.account.clone() })
    }

    /// Charges the reported usage of a call instead of its reservation.
    fn charge(&self, mut reservation: Reservation, answer: &AiMessage) {
        if let Some(usage) = &answer.usage {
            reservation.charge = self.cost(usage).unwrap_or(reservation.amount);
        }
    }
}

/// Estimates the number of tokens in a prompt.
fn estimate(prompt: &Prompt) -> u64 {
    let tools: usize = prompt.tools.iter().map(definition_length).sum();
    let schema = prompt.output.as_ref().map_or(0, |it| it.schema.to_string().len());
    let system = prompt.system.as_ref().map_or(0, |it| it.text().len());
    let tokens =
        count_tokens_approximately(&prompt.messages) + (system + tools + schema).div_ceil(4);
    tokens.try_into().unwrap_or(u64::MAX)
}

/// Returns the number of bytes in the definition of a tool.
fn definition_length(tool: &ModelTool) -> usize {
    match tool {
        ModelTool::Function { name, description, parameters, .. } => {
            name.len() + description.len() + parameters.to_string().len()
        }
        ModelTool::Provider(tool) => serde_json::to_string(tool).map_or(0, |it| it.len()),
    }
}

/// A reserved amount. When it is dropped, `charge` is spent instead.
struct Reservation {
    amount: u64,
    charge: u64,
    account: Arc<Mutex<Account>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut account = lock(&self.account);
        account.reserved = account.reserved.saturating_sub(self.amount);
        account.spent = account.spent.saturating_add(self.charge);
    }
}

impl Middleware for MoneyBudget {
    fn name(&self) -> String {
        "MoneyBudget".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model()
    }

    fn wrap_model(&self, model: SharedModel) -> SharedModel {
        Arc::new(BudgetedModel { model, budget: self.clone() })
    }
}

/// A model whose calls count against a budget.
#[derive(Debug)]
struct BudgetedModel {
    model: SharedModel,
    budget: MoneyBudget,
}

#[async_trait]
impl ChatModel for BudgetedModel {
    fn profile(&self) -> ModelProfile {
        self.model.profile()
    }

    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let reservation = self.budget.reserve(estimate(prompt)).map_err(NodeError::terminal)?;
        let answer = self.model.call(prompt, chunks).await?;
        self.budget.charge(reservation, &answer);
        Ok(answer)
    }
}

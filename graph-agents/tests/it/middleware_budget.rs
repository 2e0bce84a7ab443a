//! Tests that the money budget counts every model call of an agent and of its other middleware.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream::FuturesUnordered};
use graph_agents::{
    Agent, AiMessage, ChatModel, CompiledAgent, Message, ScriptedModel, Tool, ToolCall,
    middleware::{
        Middleware, ModelFallback, MoneyBudget, Size, Summarization, ToolEmulator, ToolSelector,
    },
    model::{ChunkSink, Prompt, SharedModel},
};
use graph_core::NodeError;
use llm::{Money, Prices, Usage};
use serde_json::json;
use tokio::sync::Semaphore;

const CHOICE: &str = r#"{"tools": ["clock"]}"#;

/// A model that costs 0.10 dollars per call, or an unknown amount.
#[derive(Clone, Debug)]
struct Paid {
    answer: AiMessage,
    calls: Arc<AtomicUsize>,
    /// Blocks calls until it is closed.
    gate: Option<Arc<Semaphore>>,
}

impl Paid {
    fn new(text: &str) -> Self {
        let usage = Usage { input: 0, output: 100_000, ..Usage::default() };
        let answer = AiMessage { usage: Some(usage), ..AiMessage::new(text) };
        Self { answer, calls: Arc::default(), gate: None }
    }

    fn without_usage(text: &str) -> Self {
        Self { answer: AiMessage::new(text), calls: Arc::default(), gate: None }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ChatModel for Paid {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(gate) = &self.gate {
            assert!(gate.acquire().await.is_err(), "the gate has no permits");
        }
        // The agent's model calls the tool once, if it has the tool.
        let has_result = prompt.messages.iter().any(|it| it.as_tool().is_some());
        match prompt.tools.is_empty() || has_result {
            true => Ok(self.answer.clone()),
            false => Ok(self.answer.clone().tool_call(ToolCall::new("clock", json!({}), "c1"))),
        }
    }
}

/// Returns a budget that reserves a little more than 1 dollar for each call.
pub(crate) fn budget(dollars: f64) -> MoneyBudget {
    let price = Money::from_dollars(1.0);
    let prices = Prices {
        input: price,
        output: price,
        cached: None,
        cache_written: None,
        up_to_input: None,
    };
    MoneyBudget::new(Money::from_dollars(dollars), prices).max_answer(1_000_000)
}

fn clock() -> Tool {
    Tool::dynamic("clock", "Returns the time.", json!({}), |_, _| async { "noon" })
}

fn summarization(model: Paid) -> Summarization {
    Summarization::new(model).trigger(Size::Messages(3)).keep(Size::Messages(1))
}

fn conversation() -> Vec<Message> {
    vec![Message::human("Hi."), Message::ai("Hello!"), Message::human("Bye.")]
}

fn agent(model: Paid, middleware: impl Middleware + 'static, budget: &MoneyBudget) -> Agent {
    // The position of the budget does not matter.
    Agent::new(model).middleware(budget.clone()).middleware(middleware)
}

fn compiled(agent: Agent) -> CompiledAgent {
    agent.compile().unwrap()
}

#[tokio::test]
async fn calls_of_summaries_count_towards_the_budget() {
    let (model, summaries, budget) = (Paid::new("Bye."), Paid::new("a summary"), budget(9.0));
    let agent = compiled(agent(model.clone(), summarization(summaries.clone()), &budget));
    let outcome = agent.run(conversation()).await.unwrap();
    assert!(outcome.messages[0].text().contains("a summary"), "{outcome:?}");
    assert_eq!((model.calls(), summaries.calls()), (1, 1));
    assert_eq!(budget.spent(), Money::from_dollars(0.2));
}

#[tokio::test]
async fn calls_of_the_tool_selector_count_towards_the_budget() {
    let (model, chooser, budget) = (Paid::new("noon"), Paid::new(CHOICE), budget(9.0));
    let selector = ToolSelector::new().model(chooser.clone());
    let agent = compiled(agent(model.clone(), selector, &budget).tools([clock()]));
    agent.run("What time is it?").await.unwrap();
    assert_eq!((model.calls(), chooser.calls()), (2, 2));
    assert_eq!(budget.spent(), Money::from_dollars(0.4));
}

#[tokio::test]
async fn calls_of_the_tool_selector_with_the_agents_model_count_towards_the_budget() {
    let (model, budget) = (Paid::new(CHOICE), budget(9.0));
    let agent = agent(model.clone(), ToolSelector::new(), &budget).tools([clock()]);
    compiled(agent).run("What time is it?").await.unwrap();
    assert_eq!(model.calls(), 4);
    assert_eq!(budget.spent(), Money::from_dollars(0.4));
}

#[tokio::test]
async fn calls_of_the_tool_emulator_count_towards_the_budget() {
    let (model, emulator, budget) = (Paid::new("noon"), Paid::new("12:00"), budget(9.0));
    let agent = agent(model.clone(), ToolEmulator::new(emulator.clone()), &budget);
    let outcome = compiled(agent.tools([clock()])).run("What time is it?").await.unwrap();
    assert_eq!(outcome.messages[2].text(), "12:00");
    assert_eq!((model.calls(), emulator.calls()), (2, 1));
    assert_eq!(budget.spent(), Money::from_dollars(0.3));
}

#[tokio::test]
async fn every_attempt_counts_towards_the_budget_in_any_order_of_middleware() {
    for is_first in [true, false] {
        let budget = budget(9.0);
        // A script without answers fails, and a failed call is charged in full.
        let failing = Agent::new(ScriptedModel::new(Vec::<AiMessage>::new()));
        let spare: SharedModel = Arc::new(Paid::new("Hello!"));
        let fallback = ModelFallback::new([spare]);
        let agent = match is_first {
            true => failing.middleware(budget.clone()).middleware(fallback),
            false => failing.middleware(fallback).middleware(budget.clone()),
        };
        compiled(agent).run("Hi.").await.unwrap();
        assert!(budget.spent() > Money::from_dollars(1.1), "{:?}", budget.spent());
    }
}

#[tokio::test]
async fn middleware_makes_no_call_that_the_budget_does_not_cover() {
    let (model, summaries, budget) = (Paid::new("Bye."), Paid::new("a summary"), budget(0.5));
    let agent = compiled(agent(model.clone(), summarization(summaries.clone()), &budget));
    let problem = agent.run(conversation()).await.unwrap_err().to_string();
    assert!(problem.contains("of the budget of $0.5"), "{problem}");
    assert_eq!((model.calls(), summaries.calls()), (0, 0));
}

#[tokio::test]
async fn call_of_middleware_without_usage_is_charged_in_full() {
    let summaries = Paid::without_usage("a summary");
    let (model, budget) = (Paid::new("Bye."), budget(1.5));
    let agent = compiled(agent(model.clone(), summarization(summaries.clone()), &budget));
    agent.run(conversation()).await.unwrap_err();
    assert_eq!((model.calls(), summaries.calls()), (0, 1));
    assert!(budget.spent() > Money::from_dollars(1.0));
}

#[tokio::test]
async fn calls_without_usage_and_cancelled_calls_are_charged_in_full() {
    let (model, budget) = (Paid::without_usage("ok"), budget(2.5));
    let agent = compiled(Agent::new(model.clone()).middleware(budget.clone()));
    agent.run("Hi.").await.unwrap();
    assert!(budget.spent() > Money::from_dollars(1.0));
    let blocked = Paid { gate: Some(Arc::new(Semaphore::new(0))), ..model.clone() };
    let waiting = compiled(Agent::new(blocked).middleware(budget.clone()));
    let until_called = async {
        while model.calls() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        outcome = waiting.run("Hi.") => panic!("the model answered: {outcome:?}"),
        () = until_called => {}
    }
    assert!(budget.spent() > Money::from_dollars(2.0));
    agent.run("Hi.").await.unwrap_err();
    assert_eq!(model.calls(), 2);
}

#[tokio::test]
async fn budget_holds_under_parallel_calls() {
    let (model, budget) = (Paid::new("Bye."), budget(3.5));
    let gate = Arc::new(Semaphore::new(0));
    let summaries = Paid { gate: Some(gate.clone()), ..Paid::new("a summary") };
    let agent = compiled(agent(model.clone(), summarization(summaries.clone()), &budget));
    let mut runs: FuturesUnordered<_> = (0..10).map(|_| agent.run(conversation())).collect();
    // The calls that the budget covers are blocked, so only the other runs end.
    let refused: Vec<_> = runs.by_ref().take(7).collect().await;
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    gate.close();
    let completed: Vec<_> = runs.collect().await;
    assert_eq!(completed.iter().filter(|it| it.is_ok()).count(), 3, "{completed:?}");
    assert_eq!((model.calls(), summaries.calls()), (3, 3));
    assert_eq!(budget.spent(), Money::from_dollars(0.6));
}

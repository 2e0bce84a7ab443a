//! Measures the cost of an agent's steps besides its model and its tools, and compares it with LangChain's
//! `create_agent`.

use std::{
    io,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use graph_agents::{
    Agent, AiMessage, CompiledAgent, Tool, ToolCall,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::NodeError;
use serde_json::json;
use tokio::runtime::Handle;

use crate::{
    langgraph::LangGraph,
    measure::{Cost, Run, Samples, Side},
    table::{align_columns, group_digits, nanos, verdict},
};

/// Name of the workload on the command line.
pub const NAME: &str = "agents";

/// Maximum cost of a step, in nanoseconds.
const MAX_COST: f64 = 20_000.0;

/// Minimum speedup over LangChain.
const MIN_SPEEDUP: f64 = 100.0;

/// Numbers of tool calls in a run. The conversation contains two messages per call.
const CALLS: [usize; 3] = [1, 5, 25];

/// The measured cost of one step in a run with this number of tool calls.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub calls: usize,
    pub agent: Cost,
    pub langchain: Option<Cost>,
}

/// Returns the number of steps in a run: a model call before each tool call and at the end.
fn steps(calls: usize) -> usize {
    2 * calls + 1
}

/// Measures agents. In each round, our agent and LangChain's take turns.
pub fn measure(
    rounds: usize,
    runtime: &Handle,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Vec<Row>> {
    let mut langchain = langgraph.as_mut().filter(|it| it.has_langchain());
    let mut rows = Vec::new();
    for calls in CALLS {
        let mut side = Side::warmed_up(run(runtime.clone(), calls), steps(calls));
        let mut samples = Samples::default();
        for round in 0..=rounds {
            side.round();
            if let Some(child) = &mut langchain {
                let time = child.run_named("agent", calls, steps(calls))?;
                // The first round warms up LangChain.
                if round > 0 {
                    samples.add(time, steps(calls));
                }
            }
        }
        let agent = side.cost().expect("at least one round was measured");
        rows.push(Row { calls, agent, langchain: samples.cost() });
    }
    Ok(rows)
}

/// Formats the results as a table, followed by lines that state whether the limits are met.
pub fn text(rows: &[Row]) -> String {
    let speedup = |it: &Row| Some(it.langchain?.median / it.agent.median);
    let cells = rows.iter().map(|row| {
        let langchain = row.langchain.map_or("absent".to_owned(), |it| nanos(it.median / 1e3));
        let faster = speedup(row).map_or("-".to_owned(), |it| group_digits(it as usize));
        let costs = [row.agent.median, row.agent.min].map(nanos);
        let [median, min] = costs;
        [group_digits(row.calls), median, min, langchain, faster]
    });
    let head = ["tool calls", "ns per step", "(min)", "LangChain µs", "speedup"];
    let mut text = align_columns(head, cells);
    let most = rows.iter().map(|it| it.agent.median).fold(0.0, f64::max);
    let least = rows.iter().map(|it| it.agent.min).fold(0.0, f64::max);
    text += &format!(
        "\n{NAME}: at most {} ns per step: {} ({}; fastest rounds {})\n",
        nanos(MAX_COST),
        verdict(most <= MAX_COST),
        nanos(most),
        nanos(least)
    );
    if let Some(worst) = rows.iter().filter_map(speedup).reduce(f64::min) {
        let (limit, worst_shown) = (MIN_SPEEDUP as usize, group_digits(worst as usize));
        let holds = verdict(worst >= MIN_SPEEDUP);
        text += &format!(
            "{NAME}: at least {limit} times faster than LangChain: {holds} ({worst_shown})\n"
        );
    }
    text
}

/// A model that answers at once: it calls a tool until the conversation contains enough answers.
#[derive(Debug)]
struct InstantModel {
    calls: usize,
}

#[async_trait]
impl ChatModel for InstantModel {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let round = prompt.messages.len() / 2;
        if round >= self.calls {
            return Ok(AiMessage::new("done"));
        }
        let call = ToolCall::new("double", json!({"number": round}), format!("call-{round}"));
        Ok(AiMessage::new("").tool_call(call))
    }
}

/// Builds an agent whose model answers at once, after this number of tool calls.
pub fn agent(calls: usize) -> CompiledAgent {
    let schema = json!({"properties": {"number": {"type": "integer"}}, "required": ["number"]});
    let double = Tool::dynamic("double", "Doubles a number.", schema, |args, _| async move {
        args["number"].as_i64().unwrap_or_default() * 2
    });
    let agent = Agent::new(InstantModel { calls }).tools([double.reads_state(false)]);
    agent.compile().expect("the agent is valid")
}

fn run(runtime: Handle, calls: usize) -> Run {
    let agent = agent(calls);
    Box::new(move || -> Duration {
        let agent = agent.clone();
        let run = async move {
            let start = Instant::now();
            let outcome = agent.run("go").await.expect("the agent does not fail");
            let time = start.elapsed();
            assert_eq!(outcome.messages.len(), 2 * calls + 2);
            time
        };
        runtime.block_on(runtime.spawn(run)).expect("the agent does not panic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_contains_the_costs_and_the_verdicts() {
        let cost = |median| Cost { median, min: median / 2.0 };
        let rows = [
            Row { calls: 1, agent: cost(10_000.0), langchain: Some(cost(2_000_000.0)) },
            Row { calls: 25, agent: cost(30_000.0), langchain: Some(cost(2_400_000.0)) },
        ];
        let expect = "\
tool calls  ns per step   (min)  LangChain µs  speedup
1                10,000   5,000         2,000      200
25               30,000  15,000         2,400       80

agents: at most 20,000 ns per step: not met (30,000; fastest rounds 15,000)
agents: at least 100 times faster than LangChain: not met (80)
";
        assert_eq!(text(&rows), expect);
    }

    #[test]
    fn agent_makes_the_expected_number_of_steps() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        assert!(run(runtime.handle().clone(), 3)() > Duration::ZERO);
    }
}

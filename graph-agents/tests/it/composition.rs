//! Tests of agents that are parts of other agents and of graphs, and of their drawings.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use graph_agents::{
    Agent, AgentOutcome, AiMessage, CompiledAgent, Message, ScriptedModel, Status, Tool, ToolCall,
    ToolMessage, messages_field, messages_from_json, multi::agent_tool,
};
use graph_core::{
    JsonStateSchema, MemorySaver, Persistence, RunOutcome, START, json::json_subgraph,
};
use serde_json::json;

use crate::agents::Repeat;

fn task(agent: &str, task: &str, id: &str) -> ToolCall {
    ToolCall::new(agent, json!({ "task": task }), id)
}

fn results(outcome: &AgentOutcome) -> Vec<&ToolMessage> {
    outcome.messages.iter().filter_map(Message::as_tool).collect()
}

/// Returns an agent that calls the tool `mix`, asks for a colour and answers. `count` is the number of calls to `mix`.
/// Each answer of the model is scripted once, so that a repeated call to the model fails.
fn painter(count: &Arc<AtomicUsize>) -> CompiledAgent {
    let counter = count.clone();
    let mix = Tool::dynamic("mix", "Mixes colours.", json!({}), move |_, _| {
        let n = counter.fetch_add(1, Ordering::Relaxed) + 1;
        async move { n }
    });
    let ask = Tool::dynamic("ask", "Asks.", json!({}), |_, runtime| async move {
        runtime.interrupt::<String>("Which colour?")
    });
    let call = |tool: &str, id: &str| ToolCall::new(tool, json!({}), id);
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(call("mix", "m")).tool_call(call("ask", "a")),
        AiMessage::new("painted"),
    ]);
    Agent::new(model).name("painter").tools([mix, ask]).compile().unwrap()
}

#[tokio::test]
async fn each_call_of_an_agent_tool_starts_an_empty_conversation() {
    let echo = Agent::new(Repeat).compile().unwrap();
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(task("echo", "one", "1")).tool_call(task("echo", "two", "2")),
        AiMessage::new("").tool_call(task("echo", "three", "3")),
        AiMessage::new("done"),
    ]);
    let agent = Agent::new(model).tools([agent_tool(echo, "echo", "Repeats.")]);
    let agent = agent.checkpointer(MemorySaver::new()).compile().unwrap();
    let outcome = agent.conversation("t").send("go").await.unwrap();
    let texts: Vec<_> = results(&outcome).iter().map(|it| it.content.text()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[tokio::test]
async fn question_of_an_agent_tool_reaches_the_caller_and_no_work_is_repeated() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(task("painter", "Paint.", "1")),
        AiMessage::new("done"),
    ]);
    let agent = Agent::new(model)
        .tools([agent_tool(painter(&count), "painter", "Paints.")])
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let chat = agent.conversation("t");
    assert_eq!(chat.send("go").await.unwrap().interrupts[0].value, "Which colour?");
    let outcome = chat.resume("blue").await.unwrap();
    assert_eq!(results(&outcome)[0].content.text(), "painted");
    assert_eq!((outcome.text().as_str(), count.load(Ordering::Relaxed)), ("done", 1));
}

#[tokio::test]
async fn failure_of_an_agent_tool_is_returned_to_the_model() {
    let silent = Agent::new(ScriptedModel::new(Vec::<AiMessage>::new())).compile().unwrap();
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(task("silent", "Speak.", "1")),
        AiMessage::new("sorry"),
    ]);
    let agent = Agent::new(model).tools([agent_tool(silent, "silent", "Speaks.")]);
    let outcome = agent.compile().unwrap().run("go").await.unwrap();
    let result = results(&outcome)[0];
    assert_eq!(result.status, Status::Error);
    assert!(result.content.text().starts_with("the agent `silent` failed: "), "{result:?}");
    assert_eq!(outcome.text(), "sorry");
}

#[tokio::test]
async fn agents_are_subgraphs_of_a_graph() {
    let count = Arc::new(AtomicUsize::new(0));
    let critic = Agent::new(Repeat).name("critic").compile().unwrap();
    let schema = JsonStateSchema::new([("messages", messages_field())]).unwrap();
    let graph = schema
        .graph()
        .node(json_subgraph("painter", painter(&count).graph(), Persistence::Invocation))
        .node(json_subgraph("critic", critic.graph(), Persistence::Invocation))
        .edge(START, "painter")
        .edge("painter", "critic")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", ());
    let waiting = thread.run(schema.input(json!({"messages": "go"})).unwrap()).await.unwrap();
    assert_eq!(waiting.interrupts()[0].value, "Which colour?");
    let RunOutcome::Done(state) = thread.resume("blue").await.unwrap() else {
        panic!("the run must end");
    };
    let messages = messages_from_json(state.get("messages").unwrap()).unwrap();
    let texts: Vec<_> = messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["go", "", "1", "blue", "painted", "go  1 blue painted"]);
    assert_eq!(messages.last().unwrap().name(), Some("critic"));
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn agent_is_drawn_as_a_loop() {
    let agent = painter(&Arc::default());
    let expected = r#"flowchart TD
    n0(["__start__"])
    n1["model"]
    n2["tools"]
    n3(["__end__"])
    n0 --> n1
    n1 -.-> n2
    n1 -.-> n3
    n2 -.-> n1
"#;
    assert_eq!(agent.mermaid(), expected);
}

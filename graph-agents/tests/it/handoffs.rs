use graph_agents::{
    Agent, AiMessage, CompiledAgent, Message, ScriptedModel, Status, Tool, ToolCall,
    multi::{Supervisor, Swarm, handoff_tool},
};
use serde_json::json;

fn calls(names: &[&str]) -> AiMessage {
    let call = |(index, name): (usize, &&str)| ToolCall::new(*name, json!({}), format!("c{index}"));
    AiMessage { tool_calls: names.iter().enumerate().map(call).collect(), ..AiMessage::default() }
}

fn three() -> Tool {
    Tool::dynamic("three", "Returns 3.", json!({}), |_, _| async { 3 })
}

fn agent(name: &str, answers: Vec<AiMessage>, tools: Vec<Tool>) -> CompiledAgent {
    Agent::new(ScriptedModel::new(answers)).name(name).tools(tools).compile().unwrap()
}

/// Runs a swarm in which `alice` makes these calls and every other agent answers with its name.
async fn swarm(alice: &[&str]) -> Vec<Message> {
    let tools = vec![three(), handoff_tool("bob"), handoff_tool("carol")];
    let agents = [
        agent("alice", vec![calls(alice)], tools),
        agent("bob", vec![AiMessage::new("bob")], vec![]),
        agent("carol", vec![AiMessage::new("carol")], vec![]),
    ];
    Swarm::new(agents, "alice").compile().unwrap().run("hi").await.unwrap().messages
}

fn results(messages: &[Message]) -> Vec<(&str, String)> {
    let results = messages.iter().filter_map(Message::as_tool);
    results.map(|it| (it.tool_call_id.as_str(), it.content.text())).collect()
}

#[tokio::test]
async fn handoff_keeps_the_results_of_other_calls() {
    for order in [["three", "transfer_to_bob"], ["transfer_to_bob", "three"]] {
        let messages = swarm(&order).await;
        assert_eq!(messages.last().unwrap().text(), "bob");
        let texts: Vec<_> = results(&messages).into_iter().map(|it| it.1).collect();
        assert_eq!(texts, ["3", "Successfully transferred to bob"], "{order:?}");
    }
}

#[tokio::test]
async fn first_of_several_handoffs_wins() {
    let messages = swarm(&["transfer_to_carol", "three", "transfer_to_bob"]).await;
    assert_eq!(messages.last().unwrap().text(), "carol");
    assert_eq!(messages.iter().filter(|it| it.text() == "bob").count(), 0);
    let results = results(&messages);
    assert_eq!(results[0], ("c1", "3".to_owned()));
    assert_eq!(results[1], ("c0", "Successfully transferred to carol".to_owned()));
    assert_eq!(results[2].0, "c2");
    assert!(results[2].1.starts_with("Not transferred"), "{}", results[2].1);
    let refused = messages.iter().filter_map(Message::as_tool).find(|it| it.tool_call_id == "c2");
    assert_eq!(refused.unwrap().status, Status::Error);
}

#[tokio::test]
async fn supervisor_without_handoff_messages_keeps_other_calls() {
    let model = ScriptedModel::new([
        calls(&["three", "transfer_to_bob", "transfer_to_carol"]),
        AiMessage::new("done"),
    ]);
    let bob = agent("bob", vec![AiMessage::new("bob")], vec![]);
    let carol = agent("carol", vec![AiMessage::new("carol")], vec![]);
    let team = Supervisor::new(model, [bob, carol])
        .tools([three()])
        .handoff_messages(false)
        .compile()
        .unwrap();
    let messages = team.run("hi").await.unwrap().messages;
    let texts: Vec<_> = messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["hi", "", "3", "bob", "done"]);
    let called: Vec<_> =
        messages[1].as_ai().unwrap().tool_calls.iter().map(|it| &it.name).collect();
    assert_eq!(called, ["three"]);
}

#[tokio::test]
async fn supervisor_sees_the_call_of_every_result_that_an_agent_returns_directly() {
    for names in [vec!["three"], vec!["three", "three"]] {
        let model = ScriptedModel::new([calls(&["transfer_to_bob"]), AiMessage::new("done")]);
        let bob = agent("bob", vec![calls(&names)], vec![three().return_direct()]);
        let team = Supervisor::new(model, [bob]).handoff_back_messages(false).compile().unwrap();
        let messages = team.run("hi").await.unwrap().messages;
        let texts: Vec<_> = messages[3..].iter().map(Message::text).collect();
        let expected = [vec![""], vec!["3"; names.len()], vec!["done"]].concat();
        assert_eq!(texts, expected);
        assert_eq!(messages[3].as_ai().unwrap().tool_calls.len(), names.len());
    }
}

#[test]
fn drawings_show_handoffs() {
    let agents = [
        agent("alice", vec![], vec![three(), handoff_tool("bob")]),
        agent("bob", vec![], vec![handoff_tool("alice")]),
    ];
    let swarm = Swarm::new(agents, "alice").compile().unwrap();
    let edges = swarm.graph().drawing(0).edges;
    for (from, to) in [("alice", "bob"), ("bob", "alice")] {
        assert!(
            edges.iter().any(|it| it.from == from && it.to == to && it.conditional),
            "{edges:?}"
        );
    }
}

use async_trait::async_trait;
use graph_agents::{
    Agent, AgentState, AiMessage, CompiledAgent, JumpTo, Message, ScriptedModel, Status, Tool,
    Update,
    middleware::{Hooks, Middleware},
    multi::{OutputMode, Supervisor, Swarm, forward_tool, handoff_tool},
};
use graph_core::{Context, NodeError};
use serde_json::json;

use crate::agents::calls;

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

/// Ends the agent after the first message of its model.
#[derive(Debug)]
struct EndAfterModel;

#[async_trait]
impl Middleware for EndAfterModel {
    fn name(&self) -> String {
        "EndAfterModel".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().after_model([JumpTo::End])
    }

    async fn after_model(&self, _: &AgentState, _: &Context) -> Result<Option<Update>, NodeError> {
        Ok(Some(Update::new().jump(JumpTo::End)))
    }
}

#[tokio::test]
async fn unexecuted_calls_get_error_results_if_middleware_ends_the_agent() {
    for mode in [OutputMode::LastMessage, OutputMode::FullHistory] {
        let model = ScriptedModel::new([calls(&["transfer_to_bob"]), AiMessage::new("done")]);
        let bob = Agent::new(ScriptedModel::new([calls(&["three", "three"])]))
            .name("bob")
            .tools([three()])
            .middleware(EndAfterModel)
            .compile()
            .unwrap();
        let team = Supervisor::new(model, [bob]).output_mode(mode).handoff_back_messages(false);
        let messages = team.compile().unwrap().run("hi").await.unwrap().messages;
        assert_eq!(messages[3].as_ai().unwrap().tool_calls.len(), 2, "{mode:?}");
        let answers = messages[4..6].iter().filter_map(Message::as_tool);
        let answers: Vec<_> = answers.map(|it| (it.tool_call_id.as_str(), it.status)).collect();
        assert_eq!(answers, [("c0", Status::Error), ("c1", Status::Error)], "{mode:?}");
        assert_eq!(messages[6].text(), "done", "{mode:?}");
    }
}

/// Runs a supervisor that hands the conversation to `bob` and then makes these calls. `forward_message` forwards the
/// message of `bob`.
async fn forward(names: &[&str]) -> Vec<Message> {
    let mut second = calls(names);
    for call in &mut second.tool_calls {
        if call.name == "forward_message" {
            call.args.insert("from_agent".to_owned(), json!("bob"));
        }
    }
    let model = ScriptedModel::new([calls(&["transfer_to_bob"]), second]);
    let bob = agent("bob", vec![AiMessage::new("bob")], vec![]);
    let team = Supervisor::new(model, [bob])
        .tools([three(), forward_tool("supervisor")])
        .handoff_back_messages(false)
        .compile()
        .unwrap();
    team.run("hi").await.unwrap().messages
}

#[tokio::test]
async fn forwarding_keeps_the_results_of_other_calls() {
    for order in [["three", "forward_message"], ["forward_message", "three"]] {
        let messages = forward(&order).await;
        let texts: Vec<_> = messages[3..].iter().map(Message::text).collect();
        assert_eq!(texts, ["bob", "", "3", "bob"], "{order:?}");
        let called = messages[4].as_ai().unwrap().tool_calls.iter();
        assert_eq!(called.map(|it| it.name.as_str()).collect::<Vec<_>>(), ["three"], "{order:?}");
        assert_eq!(messages[6].name(), Some("supervisor"), "{order:?}");
    }
}

#[tokio::test]
async fn forwarding_alone_adds_only_the_forwarded_message() {
    let messages = forward(&["forward_message"]).await;
    let texts: Vec<_> = messages[3..].iter().map(Message::text).collect();
    assert_eq!(texts, ["bob", "bob"]);
}

#[tokio::test]
async fn forwarding_does_not_leave_the_call_of_a_handoff_unanswered() {
    let messages = forward(&["forward_message", "three", "transfer_to_bob"]).await;
    let texts: Vec<_> = messages[3..].iter().map(Message::text).collect();
    assert_eq!(texts, ["bob", "", "3", "bob"]);
    assert_eq!(messages[4].as_ai().unwrap().tool_calls.len(), 1);
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

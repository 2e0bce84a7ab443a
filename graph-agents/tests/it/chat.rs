use graph_agents::{
    Agent, AiMessage, Chat, CompiledAgent, ScriptedModel, Tool, ToolCall,
    middleware::{DecisionKind, HumanInTheLoop, ReviewRule},
    multi::Supervisor,
};
use graph_core::{MemorySaver, NodeError};
use serde_json::json;

fn weather() -> Tool {
    let schema = json!({"properties": {"city": {"type": "string"}}, "required": ["city"]});
    Tool::dynamic("weather", "Returns the weather.", schema, |args, _| async move {
        format!("rain in {}", args["city"].as_str().unwrap_or_default())
    })
}

fn call(city: &str) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new("weather", json!({"city": city}), "c1"))
}

/// Returns an agent whose call to the tool `weather` is reviewed.
fn reviewed(tool: Tool, review: HumanInTheLoop) -> Agent {
    let model = ScriptedModel::new([call("Rome"), AiMessage::new("done")]);
    Agent::new(model).tools([tool]).middleware(review)
}

fn stored(agent: Agent) -> CompiledAgent {
    agent.checkpointer(MemorySaver::new()).compile().unwrap()
}

/// Types these lines in a chat and returns the output.
async fn chat(agent: &CompiledAgent, lines: &str) -> String {
    let mut output = Vec::new();
    Chat::new(agent).run(lines.as_bytes(), &mut output).await.unwrap();
    String::from_utf8(output).unwrap()
}

#[tokio::test]
async fn answers_and_tool_calls_are_printed() {
    let model = ScriptedModel::new([call("Rome"), AiMessage::new("Take an \u{1b}[5mumbrella.")]);
    let agent =
        Agent::new(model).tools([weather()]).checkpointer(MemorySaver::new()).compile().unwrap();
    let expected =
        "> → weather({\"city\": \"Rome\"})\n← weather: rain in Rome\nTake an [5mumbrella.\n> ";
    assert_eq!(chat(&agent, "Weather?\n/exit\n").await, expected);
    let history = chat(&agent, "/history\n/thread other\n/history\n/nonsense\n").await;
    assert!(history.contains("── human ──\nWeather?"), "{history}");
    assert!(history.contains("unknown command"), "{history}");
    assert_eq!(history.matches("── human ──").count(), 1, "{history}");
}

#[tokio::test]
async fn user_decides_about_tool_calls() {
    let rule = ReviewRule::allow([DecisionKind::Approve, DecisionKind::Edit, DecisionKind::Reject]);
    let agent = stored(reviewed(weather(), HumanInTheLoop::new([("weather", rule)])));
    // The input ends before the answer, so the question is still pending in the next chat.
    let output = chat(&agent, "Weather?\n").await;
    assert!(
        output.ends_with("approve | edit {JSON arguments} | reject [reason]? > \n"),
        "{output}"
    );
    let output = chat(&agent, "maybe\nedit Bonn\nedit {\"city\": \"Bonn\"}\n").await;
    assert!(output.contains("`maybe` is not one of: approve, edit, reject"), "{output}");
    assert!(output.contains("type the new arguments as a JSON object"), "{output}");
    assert!(output.contains("rain in Bonn\ndone\n"), "{output}");
}

#[tokio::test]
async fn every_decision_is_applied_in_reviews_of_messages_and_of_calls() {
    let review = HumanInTheLoop::new([("weather", ReviewRule::all())]);
    for review in [review.clone(), review.per_call()] {
        for (decision, result) in [
            ("approve", "← weather: rain in Rome\n"),
            ("edit {\"city\": \"Bonn\"}", "rain in Bonn\n"),
            ("reject", "← weather failed: User rejected the tool call for `weather` with id c1."),
            (
                "reject no need",
                "← weather failed: User rejected the tool call for `weather` with reason: no need\n",
            ),
            ("respond It is sunny.", "← weather: It is sunny.\n"),
        ] {
            let agent = stored(reviewed(weather(), review.clone()));
            let output = chat(&agent, &format!("Weather?\n{decision}\n")).await;
            let prompt = "approve | edit {JSON arguments} | reject [reason] | respond TEXT? ";
            assert!(output.contains(prompt), "{output}");
            assert!(output.contains(result), "{decision}: {output}");
            assert!(output.ends_with("done\n> \n"), "{decision}: {output}");
        }
    }
}

#[tokio::test]
async fn user_is_asked_again_after_a_decision_that_is_not_allowed() {
    let reviewed = || {
        let rule = ReviewRule::allow([DecisionKind::Approve, DecisionKind::Reject]);
        // The question of such a review does not contain the allowed decisions.
        reviewed(weather(), HumanInTheLoop::new([("weather", rule)]).per_call())
    };
    let handoff = ToolCall::new("transfer_to_bob", json!({}), "c0");
    let model = ScriptedModel::new([AiMessage::new("").tool_call(handoff), AiMessage::new("bye")]);
    let team = Supervisor::new(model, [reviewed().name("bob").compile().unwrap()])
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    for agent in [stored(reviewed()), team] {
        let output = chat(&agent, "Weather?\nrespond sun\napprove\n").await;
        let refusal = "Decision type 'respond' is not allowed for tool 'weather'";
        assert_eq!(output.matches(refusal).count(), 1, "{output}");
        assert_eq!(output.matches("respond TEXT? ").count(), 2, "{output}");
        assert!(output.contains("← weather: rain in Rome\ndone\n"), "{output}");
    }
}

#[tokio::test]
async fn user_is_not_asked_again_after_an_approved_call_fails() {
    let offline = Tool::dynamic("weather", "Returns the weather.", json!({}), |_, _| async {
        Err::<String, NodeError>("offline".into())
    });
    let review = HumanInTheLoop::new([("weather", ReviewRule::all())]).per_call();
    let output = chat(&stored(reviewed(offline, review)), "Weather?\napprove\n/exit\n").await;
    assert!(output.ends_with("offline\n> "), "{output}");
    assert_eq!(output.matches("respond TEXT? ").count(), 1, "{output}");
}

#[tokio::test]
async fn questions_of_tools_are_answered_and_failures_are_printed() {
    let ask = Tool::dynamic("ask", "Asks.", json!({}), |_, runtime| async move {
        runtime.interrupt::<String>("Which colour?")
    });
    let call = AiMessage::new("").tool_call(ToolCall::new("ask", json!({}), "c1"));
    let agent = Agent::new(ScriptedModel::new([call]))
        .tools([ask])
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let output = chat(&agent, "go\nblue\n/retry\n").await;
    assert!(output.contains("Which colour?\n? ← ask: blue\nerror: "), "{output}");
    assert_eq!(output.matches("no answers left").count(), 2, "{output}");
}

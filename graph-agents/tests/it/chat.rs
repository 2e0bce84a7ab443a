use graph_agents::{
    Agent, AiMessage, Chat, CompiledAgent, ScriptedModel, Tool, ToolCall,
    middleware::{DecisionKind, HumanInTheLoop, ReviewRule},
};
use graph_core::MemorySaver;
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
    let model = ScriptedModel::new([call("Rome"), AiMessage::new("done")]);
    let rule = ReviewRule::allow([DecisionKind::Approve, DecisionKind::Edit, DecisionKind::Reject]);
    let agent = Agent::new(model)
        .tools([weather()])
        .middleware(HumanInTheLoop::new([("weather", rule)]))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
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

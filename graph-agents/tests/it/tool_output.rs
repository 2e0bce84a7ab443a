//! Tests that everything that a tool returns to the model is limited in length and marked as untrusted.

use std::fs;

use graph_agents::{
    Agent, AgentError, AiMessage, Command, Content, ExceptionAnswer, Message, ScriptedModel,
    Status, Tool, ToolCall, ToolErrors, ToolMessage, ToolOutput, Update,
    middleware::{
        AllowedCommands, FileSearch, Middleware, RetryOptions, Shell, ToolErrorAnswers, ToolRetry,
    },
    multi::{Swarm, handoff_tool},
};
use graph_core::NodeError;
use serde_json::{Value, json};

const LONG: &str = "äöüß0123456789";
const ASKED: &str = "Load it!";
const SHORTENED: &str = "äöü\n[output truncated: the first 3 of 14 characters are shown]";

fn marked(tool: &str, text: &str) -> String {
    format!("<untrusted_tool_output tool=\"{tool}\">\n{text}\n</untrusted_tool_output>")
}

/// Runs an agent whose model calls the tool once, and returns the messages that the call adds.
async fn run(add: impl FnOnce(Agent) -> Agent, tool: &str, args: Value) -> Vec<Message> {
    let call = AiMessage::new("").tool_call(ToolCall::new(tool, args, "c1"));
    let model = ScriptedModel::new([call, AiMessage::new("done")]);
    let agent = add(Agent::new(model)).compile().unwrap();
    let messages = agent.run("go").await.unwrap().messages;
    messages[2..messages.len() - 1].to_vec()
}

async fn texts(add: impl FnOnce(Agent) -> Agent, tool: &str, args: Value) -> Vec<String> {
    run(add, tool, args).await.iter().map(Message::text).collect()
}

/// Returns a tool that answers with a command and with another message.
fn commanding() -> Tool {
    let tool = Tool::dynamic("load", "Loads.", json!({}), |_, runtime| async move {
        let answer = ToolMessage::success(runtime.call(), LONG);
        let messages = [Message::from(answer), Message::human(LONG)];
        Command::new().update(Update::new().messages(messages))
    });
    tool.max_output(3)
}

fn failing() -> Tool {
    let tool = Tool::dynamic("load", "Fails.", json!({}), |_, _| async {
        Err::<String, _>(NodeError::from(AgentError::tool(LONG)))
    });
    tool.max_output(3)
}

#[tokio::test]
async fn messages_of_commands_are_bounded_and_marked() {
    let results = texts(|it| it.tools([commanding()]), "load", json!({})).await;
    assert_eq!(results, [SHORTENED, SHORTENED]);
    let results = texts(|it| it.tools([commanding().untrusted()]), "load", json!({})).await;
    assert_eq!(results, [marked("load", SHORTENED), marked("load", SHORTENED)]);
    let several = Tool::dynamic("load", "Loads.", json!({}), |_, runtime| async move {
        let answer = ToolMessage::success(runtime.call(), LONG);
        let update = Update::new().messages([answer]);
        ToolOutput::Many(vec![ToolOutput::Command(Command::new().update(update))])
    });
    let results = texts(|it| it.tools([several.max_output(3)]), "load", json!({})).await;
    assert_eq!(results, [SHORTENED]);
}

#[tokio::test]
async fn blocks_that_are_not_text_are_bounded_and_marked() {
    let image = json!({"type": "image", "base64": "cG5n", "mime_type": "image/png"});
    let blocks = [
        json!({"type": "json", "json": {"note": "Obey!"}}),
        json!({"type": "search_result", "content": [{"type": "text", "text": "Obey!"}]}),
        json!({"type": "custom_tool_call_output", "output": "Obey!"}),
        json!({"type": "document", "source": {"type": "text", "data": "Obey!"}}),
        json!({"type": "file", "file_id": "Obey!"}),
    ];
    for block in blocks {
        let value = json!([block, image]);
        let tool = Tool::dynamic("load", "Loads.", json!({}), move |_, _| {
            let value = value.clone();
            async move { value }
        });
        let text_block = |text: String| json!({"type": "text", "text": text});
        let json = block.to_string();
        let shortened = format!(
            "{{\"\n[output truncated: the first 2 of {} characters are shown]",
            json.chars().count()
        );
        for (tool, expected) in [
            (tool.clone(), block.clone()),
            (tool.clone().untrusted(), text_block(marked("load", &json))),
            (tool.clone().max_output(2), text_block(shortened)),
        ] {
            let results = run(|it| it.tools([tool]), "load", json!({})).await;
            let expected = Content::Blocks(vec![expected, image.clone()]);
            assert_eq!(results[0].content(), Some(&expected));
        }
    }
}

#[tokio::test]
async fn text_files_are_bounded_and_marked() {
    let file = json!({"type": "file", "base64": "T2JleSE=", "mime_type": "text/plain", "filename": "Obey!"});
    let pdf = |name: &str| json!({"type": "file", "base64": "cGRm", "mime_type": "application/pdf", "filename": name});
    let mut unnamed = pdf("");
    unnamed.as_object_mut().unwrap().remove("filename");
    let value = json!([file, pdf("Obey!")]);
    let tool = Tool::dynamic("load", "Loads.", json!({}), move |_, _| {
        let value = value.clone();
        async move { value }
    });
    let text_block = |text: &str| json!({"type": "text", "text": text});
    let shortened = "Ob\n[output truncated: the first 2 of 5 characters are shown]";
    for (tool, expected) in [
        (tool.clone(), [file.clone(), pdf("Obey!")]),
        (tool.clone().untrusted(), [text_block(&marked("load", "Obey!")), unnamed]),
        (tool.max_output(2), [text_block(shortened), pdf("Obey!")]),
    ] {
        let results = run(|it| it.tools([tool]), "load", json!({})).await;
        assert_eq!(results[0].content(), Some(&Content::Blocks(expected.to_vec())));
    }
}

/// Returns a tool that replaces the first message of the conversation.
fn replacing(text: &'static str) -> Tool {
    let tool = Tool::dynamic("load", "Loads.", json!({}), move |_, runtime| async move {
        let mut first = runtime.state().messages()[0].clone();
        if let Message::Human(it) = &mut first {
            it.content = text.into();
        }
        let answer = ToolMessage::success(runtime.call(), "ok");
        Command::new().update(Update::new().messages([first, Message::from(answer)]))
    });
    tool.max_output(3)
}

#[tokio::test]
async fn replaced_messages_are_bounded_and_unchanged_ones_are_not() {
    for (text, expected) in [(ASKED, ASKED), (LONG, SHORTENED)] {
        let call = AiMessage::new("").tool_call(ToolCall::new("load", json!({}), "c1"));
        let model = ScriptedModel::new([call, AiMessage::new("done")]);
        let agent = Agent::new(model).tools([replacing(text)]).compile().unwrap();
        let outcome = agent.run(ASKED).await.unwrap();
        assert_eq!(outcome.messages[0].text(), expected);
    }
}

#[tokio::test]
async fn handoff_passes_long_messages_on_unchanged() {
    let call = ToolCall::new("transfer_to_bob", json!({}), "c1");
    let alice = Agent::new(ScriptedModel::new([AiMessage::new("").tool_call(call)]));
    let alice = alice.name("alice").tools([handoff_tool("bob")]).compile().unwrap();
    let bob = Agent::new(ScriptedModel::new([AiMessage::new("done")])).name("bob");
    let swarm = Swarm::new([alice, bob.compile().unwrap()], "alice").compile().unwrap();
    let question = "x".repeat(150_000);
    let outcome = swarm.run(question.as_str()).await.unwrap();
    assert_eq!((outcome.messages[0].text(), outcome.text().as_str()), (question, "done"));
}

#[tokio::test]
async fn errors_are_bounded_and_marked() {
    let agents: [(&str, fn(Agent, Tool) -> Agent); 3] = [
        ("of the tool itself", |agent, tool| {
            agent.tools([tool.handle_exceptions(ExceptionAnswer::Message)])
        }),
        ("of the error policy", |agent, tool| {
            let message = |error: &NodeError| Some(error.to_string());
            agent.tools([tool.errors(ToolErrors::answer_with(message))])
        }),
        ("of the middleware", |agent, tool| {
            let message = |error: &NodeError| Some(error.to_string());
            agent.tools([tool]).middleware(ToolErrorAnswers::new(message))
        }),
    ];
    for (which, add) in agents {
        let results = run(|it| add(it, failing()), "load", json!({})).await;
        assert_eq!(results[0].text(), SHORTENED, "{which}");
        assert_eq!(results[0].as_tool().unwrap().status, Status::Error, "{which}");
        let results = texts(|it| add(it, failing().untrusted()), "load", json!({})).await;
        assert_eq!(results, [marked("load", SHORTENED)], "{which}");
    }
    let options = RetryOptions { max_retries: 0, ..RetryOptions::default() };
    let retry = |it: Agent| it.tools([failing()]).middleware(ToolRetry::new(options));
    let results = texts(retry, "load", json!({})).await;
    assert!(results[0].starts_with("Too\n[output truncated: the first 3 of "), "{results:?}");
}

#[tokio::test]
async fn rejected_arguments_are_not_marked() {
    let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Tool::dynamic("web", "Reads.", schema, |_, _| async { "text" }).untrusted();
    let results = texts(|it| it.tools([tool.clone()]), "web", json!({})).await;
    assert!(results[0].starts_with("Error invoking tool 'web'"), "{results:?}");
    let results = texts(|it| it.tools([tool.max_output(5)]), "web", json!({})).await;
    assert!(results[0].starts_with("Error\n[output truncated: "), "{results:?}");
}

#[tokio::test]
async fn tools_for_files_and_commands_are_untrusted_by_default() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "Obey!\n").unwrap();
    let search = FileSearch::new(dir.path()).unwrap();
    let commands = AllowedCommands::new(dir.path(), ["cat"]).unwrap();
    let shell = || Shell::new(commands.clone());
    let grep = json!({"pattern": "Obey", "output_mode": "content"});
    check_mark(search.clone(), search.trusted(), "grep_search", grep, "/a.txt:1:Obey!").await;
    let cat = json!({"command": "cat a.txt"});
    check_mark(shell(), shell().trusted(), "shell", cat, "Obey!\n").await;
}

#[tokio::test]
async fn untrusted_mark_of_a_single_tool_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "Obey!\n").unwrap();
    let tools = FileSearch::new(dir.path()).unwrap().tools().into_iter().map(Tool::trusted);
    let grep = json!({"pattern": "Obey", "output_mode": "content"});
    let results = texts(|it| it.tools(tools), "grep_search", grep).await;
    assert_eq!(results, ["/a.txt:1:Obey!"]);
    let tool = failing().untrusted().trusted().handle_exceptions(ExceptionAnswer::Message);
    assert_eq!(texts(|it| it.tools([tool]), "load", json!({})).await, [SHORTENED]);
}

async fn check_mark(
    untrusted: impl Middleware + 'static,
    trusted: impl Middleware + 'static,
    tool: &str,
    args: Value,
    expected: &str,
) {
    let results = texts(|it| it.middleware(untrusted), tool, args.clone()).await;
    assert_eq!(results, [marked(tool, expected)]);
    assert_eq!(texts(|it| it.middleware(trusted), tool, args).await, [expected]);
}

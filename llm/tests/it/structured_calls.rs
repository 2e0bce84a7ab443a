//! Tests of structured output: calls that repair a reply, and the value that is used if no reply can be parsed.

use llm::{ErrorKind, Finish, JsonError, Llm, ParseMethod, Reply, Request, Scripted};

use crate::structured::{OWN, Score};

fn model(replies: impl IntoIterator<Item = impl Into<Reply>>) -> Llm {
    Llm::new(Scripted::replies("judge", replies))
}

/// Returns a model that gives the first reply, and then the second one if the repair request mentions `problem`.
fn repairing(first: impl Into<Reply>, problem: &'static str, second: impl Into<Reply>) -> Llm {
    let (first, second) = (first.into(), second.into());
    Llm::new(Scripted::new("judge", move |request: &Request| {
        if request.prompt().contains(problem) { second.clone() } else { first.clone() }
    }))
}

#[tokio::test]
async fn unreadable_reply_is_repaired_by_a_second_call() {
    let llm = repairing(OWN.replace('3', "\"high\""), "not of type integer", OWN);
    let once = llm.generate(Request::new("Judge.")).await.unwrap().usage.unwrap();
    let judged = llm.generate_json::<Score>("Judge.").await.unwrap();
    assert_eq!((judged.value.impact, judged.method), (3, ParseMethod::Repaired));
    assert_eq!(judged.notes[0], "json: `impact` is \"high\", not of type integer");
    assert!(judged.response.usage.unwrap().output > once.output, "the calls were not added up");
}

#[tokio::test]
async fn shorter_reply_is_requested_after_a_truncated_one() {
    let llm = repairing("word ".repeat(300), "cut off", OWN);
    let judged = llm.generate_json::<Score>(Request::new("Judge.").max_tokens(100)).await.unwrap();
    assert_eq!((judged.method, judged.response.finish), (ParseMethod::Repaired, Finish::Stop));
}

#[tokio::test]
async fn value_from_truncated_reply_has_a_note() {
    let reply = format!("{OWN} That is, {}", "word ".repeat(300));
    let request = Request::new("Judge.").max_tokens(100);
    let judged = model([reply]).generate_json::<Score>(request).await.unwrap();
    assert_eq!((judged.value.impact, judged.method), (3, ParseMethod::JsonExtracted));
    assert_eq!(judged.notes, ["the reply was truncated after this value"]);
}

#[tokio::test]
async fn tool_calls_are_not_repaired() {
    let llm = model([Reply::ToolCall {
        name: "look_up".to_owned(),
        arguments: serde_json::json!({ "id": "F1-07" }),
    }]);
    let error = llm.generate_json::<Score>("Judge.").await.unwrap_err();
    let JsonError::Unreadable { error: unreadable, response } = error else { panic!("{error}") };
    assert_eq!(response.tool_calls().next().unwrap().name, "look_up");
    assert!(unreadable.attempts.iter().all(|it| it.0 != ParseMethod::Repaired), "{unreadable}");
    let arguments = serde_json::json!("{\"id\": F1-07}");
    let llm = model([Reply::ToolCall { name: "look_up".to_owned(), arguments }]);
    let error = llm.generate_json::<Score>("Judge.").await.unwrap_err();
    let JsonError::Unreadable { response, .. } = error else { panic!("{error}") };
    assert_eq!(response.invalid_tool_calls().count(), 1);
}

#[tokio::test]
async fn default_is_used_if_no_reply_can_be_parsed() {
    let llm = model(["No."; 4]);
    let five = Score {
        impact: 5,
        feasibility: 5,
        risk_adjusted_return: 5,
        strategic_alignment: 5,
        reasoning: String::new(),
    };
    let judged = llm.generate_json_or("Judge.", five.clone()).await.unwrap();
    assert_eq!((judged.value, judged.method), (five.clone(), ParseMethod::Default));
    assert_eq!(judged.notes.len(), 4);

    let error = llm.generate_json::<Score>("Judge.").await.unwrap_err();
    let JsonError::Unreadable { error: unreadable, .. } = &error else { panic!("{error}") };
    let methods: Vec<ParseMethod> = unreadable.attempts.iter().map(|it| it.0).collect();
    assert_eq!(
        methods,
        [ParseMethod::Json, ParseMethod::JsonExtracted, ParseMethod::Labels, ParseMethod::Repaired]
    );
    assert!(
        error.to_string().starts_with("scripted/judge: the reply contains no value"),
        "{error}"
    );

    let llm = model([ErrorKind::Overloaded]);
    let error = llm.generate_json_or("Judge.", five).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Overloaded);
}

#[tokio::test]
async fn failed_repair_reports_both_problems() {
    let llm = model([Reply::from(""), Reply::from(ErrorKind::Unreachable)]);
    let error = llm.generate_json::<Score>("Judge.").await.unwrap_err().to_string();
    assert!(error.contains("the reply is empty") && error.contains("cannot connect"), "{error}");
}

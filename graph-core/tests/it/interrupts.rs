//! Interrupts and resuming: single and multiple interrupts, subgraphs, and resume values of the wrong type.

use graph_core::{
    Context, Goto, IgnoredInterruptError, Input, Interrupt, MemorySaver, NodeError, NodeExt,
    Persistence, ResumeValueError, RetryPolicy, RunError, START, State, StateGraph, Thread, send,
};
use serde_json::json;

use crate::support::{
    Item, Probe, Trail, TrailUpdate, ask, failed_node, graph, pass, path_of, sub, thread_of, trail,
    visited,
};

fn ids(interrupts: &[Interrupt]) -> Vec<String> {
    interrupts.iter().map(|it| it.id.clone()).collect()
}

#[tokio::test]
async fn an_interrupt_stops_the_run_until_it_is_resumed() {
    let probe = Probe::default();
    let thread = thread_of(graph().node(ask).node(pass).edge(START, ask).edge(ask, pass), &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert!(!outcome.is_done());
    assert_eq!(outcome.interrupts()[0].value, "ask?");
    assert!(outcome.interrupts()[0].namespace.starts_with("ask:"));

    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.next, ["ask"]);
    assert_eq!(state.interrupts(), outcome.interrupts().iter().collect::<Vec<_>>());

    let outcome = thread.resume("yes").await.unwrap();
    assert!(outcome.is_done());
    assert_eq!(outcome.state(), &trail(["yes", "pass"]));
    assert_eq!(probe.trace(), "1: ask ask | 2: pass");
}

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Form {
    name: String,
    age: u32,
}

async fn fill(_: &Form, cx: &Context) -> Result<FormUpdate, NodeError> {
    let name: String = cx.interrupt("name?")?;
    let age: u32 = cx.interrupt(json!({"age of": name}))?;
    Ok(Form::update().name(name).age(age))
}

fn form() -> Thread<Form> {
    let graph = StateGraph::<Form>::new().node(fill).edge(START, fill);
    thread_of(graph, &())
}

#[tokio::test]
async fn a_node_can_interrupt_several_times() {
    let thread = form();
    let first = thread.run(Form::default()).await.unwrap();
    let second = thread.resume("Ada").await.unwrap();
    assert_eq!(second.interrupts()[0].value, json!({"age of": "Ada"}));
    assert_ne!(first.interrupts()[0].id, second.interrupts()[0].id);
    let done = thread.resume(36).await.unwrap();
    assert_eq!(done.state(), &Form { name: "Ada".into(), age: 36 });
}

#[tokio::test]
async fn a_resume_value_of_the_wrong_type_can_be_replaced() {
    let thread = form();
    assert_eq!(thread.run(Form::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(thread.resume("Ada").await.unwrap().interrupts().len(), 1);

    let error = thread.resume("old").await.unwrap_err();
    let error = error.node_error::<ResumeValueError>().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(error.node, "fill");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.interrupts().len(), 1, "the interrupt is still pending");
    assert_eq!(state.interrupts()[0].value, json!({"age of": "Ada"}));

    let done = thread.resume(36).await.unwrap();
    assert_eq!(done.state(), &Form { name: "Ada".into(), age: 36 });
}

#[tokio::test]
async fn a_rejected_resume_value_can_be_replaced() {
    async fn ask(_: &Form, cx: &Context) -> Result<FormUpdate, NodeError> {
        let age = cx.interrupt_checked("age", |age: u32| match age {
            0..=150 => Ok(age),
            _ => Err(NodeError::from(std::io::Error::other("too old"))),
        })?;
        Ok(Form::update().age(age))
    }
    let graph = StateGraph::<Form>::new().node(ask).edge(START, ask);
    let thread = graph.checkpointer(MemorySaver::new()).compile().unwrap().thread("t", ());
    assert_eq!(thread.run(Form::default()).await.unwrap().interrupts().len(), 1);
    for _ in 0..2 {
        let error = thread.resume(900).await.unwrap_err();
        assert!(error.to_string().contains("too old"), "{error}");
    }
    assert_eq!(thread.resume(36).await.unwrap().state().age, 36);
}

#[tokio::test]
async fn a_resume_value_by_id_of_the_wrong_type_can_be_replaced() {
    let thread = form();
    let outcome = thread.run(Form::default()).await.unwrap();
    let id = outcome.interrupts()[0].id.clone();
    thread.resume_by_id([(id.clone(), json!(5))]).await.unwrap_err();
    let outcome = thread.resume_by_id([(id, json!("Ada"))]).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, json!({"age of": "Ada"}));
}

fn two_interrupts_and_a_node() -> StateGraph<Trail, Probe> {
    graph()
        .node_as("a", ask)
        .node_as("b", ask)
        .node_as("c", pass)
        .node_as("d", pass)
        .edge(START, "a")
        .edge(START, "b")
        .edge(START, "c")
        .join(["a", "b", "c"], "d")
}

#[tokio::test]
async fn several_interrupts_are_resumed_by_id() {
    let probe = Probe::default();
    let thread = thread_of(two_interrupts_and_a_node(), &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    let values: Vec<_> = outcome.interrupts().iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, ["a?", "b?"]);
    assert_eq!(outcome.state(), &trail(["c"]), "writes of finished siblings are included");
    assert_eq!(probe.trace(), "1: a b c");

    let ids = ids(outcome.interrupts());
    let outcome = thread.resume_by_id([(ids[1].clone(), json!("B"))]).await.unwrap();
    assert_eq!(outcome.interrupts().len(), 1);
    assert_eq!(outcome.interrupts()[0].id, ids[0], "the other interrupt keeps its id");
    assert_eq!(probe.count("c"), 0, "finished tasks do not run again");

    let outcome = thread.resume("A").await.unwrap();
    assert_eq!(outcome.state(), &trail(["A", "B", "c", "d"]));
}

#[tokio::test]
async fn all_interrupts_can_be_resumed_together() {
    let probe = Probe::default();
    let thread = thread_of(two_interrupts_and_a_node(), &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    let values = outcome.interrupts().iter().map(|it| (it.id.clone(), json!("yes")));
    let outcome = thread.resume_by_id(values).await.unwrap();
    assert_eq!(outcome.state(), &trail(["yes", "yes", "c", "d"]));
}

#[tokio::test]
async fn one_resume_value_for_several_interrupts_is_ambiguous() {
    let probe = Probe::default();
    let thread = thread_of(two_interrupts_and_a_node(), &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 2);
    probe.trace();
    let error = thread.resume("x").await.unwrap_err();
    assert!(matches!(error, RunError::AmbiguousResume { pending: 2 }), "{error}");
    assert_eq!(probe.trace(), "", "no node has run");
}

#[tokio::test]
async fn an_unknown_interrupt_id_is_an_error() {
    let probe = Probe::default();
    let thread = thread_of(two_interrupts_and_a_node(), &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 2);
    let error = thread.resume_by_id([("unknown".to_owned(), json!(1))]).await.unwrap_err();
    assert!(matches!(&error, RunError::UnknownInterrupt { id } if id == "unknown"), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.interrupts().len(), 2);
}

async fn approve(item: Item, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), &format!("approve({})", item.0)).await?;
    let answer: String = cx.interrupt(item.0)?;
    Ok(visited(&format!("{} {answer}", item.0)))
}

#[tokio::test]
async fn sent_tasks_interrupt_independently() {
    let probe = Probe::default();
    let sends = |_: &Trail| (1..=3).map(|it| send(approve, Item(it))).collect::<Vec<_>>();
    let thread = thread_of(graph().node(approve).branch(START, sends), &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    let values: Vec<_> = outcome.interrupts().iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, [1, 2, 3]);
    probe.trace();

    let values = outcome.interrupts()[1..].iter().map(|it| (it.id.clone(), json!("ok")));
    let outcome = thread.resume_by_id(values).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, 1);
    assert_eq!(path_of(&thread).await, ["2 ok", "3 ok"]);
    probe.trace();
    let outcome = thread.resume("no").await.unwrap();
    assert_eq!(outcome.state(), &trail(["1 no", "2 ok", "3 ok"]));
    assert_eq!(probe.trace(), "1: approve(1)");
}

fn nested() -> StateGraph<Trail, Probe> {
    let inner = graph().node_as("before", pass).node_as("inner", ask).sequence(["before", "inner"]);
    graph().node(sub("sub", inner)).edge(START, "sub")
}

#[tokio::test]
async fn an_interrupt_in_a_subgraph_is_resumed_by_the_caller() {
    for by_id in [false, true] {
        let probe = Probe::default();
        let thread = thread_of(nested(), &probe);
        let outcome = thread.run(Trail::default()).await.unwrap();
        let [interrupt] = outcome.interrupts() else { panic!("one interrupt") };
        let parts: Vec<_> = interrupt.namespace.split('|').collect();
        assert!(parts[0].starts_with("sub:") && parts[1].starts_with("inner:"), "{parts:?}");
        assert_eq!(probe.trace(), "1: before | 2: inner");
        let outcome = match by_id {
            true => thread.resume_by_id([(interrupt.id.clone(), json!("in"))]).await.unwrap(),
            false => thread.resume("in").await.unwrap(),
        };
        assert_eq!(outcome.state(), &trail(["before", "in"]));
        assert_eq!(probe.trace(), "2: inner", "finished tasks of the subgraph do not run again");
    }
}

#[tokio::test]
async fn a_wrong_resume_value_in_a_subgraph_can_be_replaced() {
    let probe = Probe::default();
    let thread = thread_of(nested(), &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let error = thread.resume(5).await.unwrap_err();
    assert!(error.node_error::<ResumeValueError>().is_some(), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.interrupts().len(), 1, "the interrupt is still pending");
    let outcome = thread.resume("in").await.unwrap();
    assert_eq!(outcome.state(), &trail(["before", "in"]));
}

#[tokio::test]
async fn a_failure_takes_precedence_over_interrupts() {
    let probe = Probe::default();
    let thread = thread_of(two_interrupts_and_a_node(), &probe);
    probe.fail_next("c", 1);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "c");
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.interrupts().len(), 2);
    assert_eq!(outcome.state(), &trail(["c"]));
}

#[tokio::test]
async fn a_resume_can_be_combined_with_an_update() {
    let probe = Probe::default();
    let built = graph().node(ask).node_as("other", pass).edge(START, ask).branch(
        ask,
        |it: &Trail| match it.note.as_str() {
            "go" => vec![Goto::node("other")],
            _ => vec![],
        },
    );
    let thread = thread_of(built, &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let input = Input::resume("A").unwrap().with_update(Trail::update().note("go"));
    let outcome = thread.run(input).await.unwrap();
    assert_eq!(
        (outcome.state().note.as_str(), &outcome.state().path[..]),
        ("go", &["A".to_owned(), "other".to_owned()][..])
    );
}

#[tokio::test]
async fn a_resumed_checkpoint_can_be_resumed_again() {
    let probe = Probe::default();
    let thread = thread_of(graph().node(ask).edge(START, ask), &probe);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let asked = thread.state().await.unwrap().unwrap().id;
    assert_eq!(thread.resume("old").await.unwrap().state(), &trail(["old"]));
    let outcome = thread.at(asked).resume("new").await.unwrap();
    assert_eq!(outcome.state(), &trail(["new"]));
    let outcome = thread.at(asked).proceed().await.unwrap();
    assert_eq!(outcome.interrupts().len(), 1, "without a resume value it interrupts again");
}

#[tokio::test]
async fn a_run_without_thread_reports_the_interrupt_value() {
    let graph = graph().node(ask).edge(START, ask).compile().unwrap();
    let error = graph.invoke(Trail::default(), Probe::default()).await.unwrap_err();
    assert!(matches!(error, RunError::Unfinished { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the run did not complete: node `ask` asks \"ask?\"; to be able to continue it, start it on a thread of a graph \
         with a checkpointer"
    );
}

#[tokio::test]
async fn invoke_on_a_thread_says_how_to_answer() {
    let probe = Probe::default();
    let inner = graph().node(ask).edge(START, ask).compile().unwrap();
    let outer = graph().node_as("outer", &inner).edge(START, "outer");
    let error = thread_of(outer, &probe).invoke(Trail::default()).await.unwrap_err();
    let expected =
        "the run did not complete: node `outer/ask` asks \"ask?\"; answer with `thread.resume(..)`";
    assert_eq!(error.to_string(), expected);
    let thread = thread_of(two_interrupts_and_a_node(), &probe);
    let error = thread.invoke(Trail::default()).await.unwrap_err();
    let expected = "the run did not complete: node `a` asks \"a?\" and node `b` asks \"b?\"; \
                    answer with `thread.resume_by_id(..)`";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_node_that_ignores_its_interrupt_fails() {
    async fn guess(_: &Trail, cx: &Context<Probe>) -> TrailUpdate {
        cx.deps().enter(cx.step(), cx.node()).await.expect("the probe does not make it fail");
        visited(&cx.interrupt::<String>("name?").unwrap_or_default())
    }
    let probe = Probe::default();
    let nodes = || graph().node(guess.retry(RetryPolicy::max_attempts(3))).edge(START, "guess");
    let error = thread_of(nodes(), &probe).run(Trail::default()).await.unwrap_err();
    assert_eq!(error.node_error(), Some(&IgnoredInterruptError));
    assert_eq!(
        error.to_string(),
        "node `guess` failed in step 1: the node raised an interrupt but did not return its error, so the interrupt \
         would be lost; pass the error on with `?`, as in `cx.interrupt(..)?`"
    );
    assert_eq!(probe.count("guess"), 1, "the node is not retried");
    // The node also fails without a checkpointer.
    let graph = graph().node(guess).edge(START, guess).compile().unwrap();
    let error = graph.invoke(Trail::default(), probe).await.unwrap_err();
    assert_eq!(error.node_error(), Some(&IgnoredInterruptError));
}

#[tokio::test]
async fn a_node_that_ignores_the_interrupt_of_a_subgraph_fails() {
    let inner = graph().node(ask).edge(START, ask).compile().unwrap();
    let outer = async move |_: &Trail, cx: &Context<Probe>| {
        let state = cx.run_graph(&inner, Persistence::Invocation, Trail::default()).await;
        state.ok().flatten().map(|it| Trail::update().path(it.path))
    };
    let thread = thread_of(graph().node_as("outer", outer).edge(START, "outer"), &Probe::default());
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(error.node_error(), Some(&IgnoredInterruptError));
}

#[tokio::test]
async fn a_resume_value_without_a_pending_interrupt_is_ignored() {
    let thread = thread_of(graph().node(pass).edge(START, pass), &Probe::default());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    let outcome = thread.resume("junk").await.unwrap();
    assert!(outcome.is_done());
    assert_eq!(outcome.state(), &trail(["pass"]));
    let error = thread.resume_by_id([("x".to_owned(), json!(1))]).await.unwrap_err();
    assert!(matches!(error, RunError::UnknownInterrupt { .. }), "{error}");
}

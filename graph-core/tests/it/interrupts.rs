//! Questions: asked, answered, answered wrongly, and several at once.

use graph_core::{
    BadAnswer, Context, Goto, Input, Interrupt, MemorySaver, NodeError, RunError, START, State,
    StateGraph, Thread, send, subgraph,
};
use serde_json::json;

use crate::support::{
    Item, Trail, TrailUpdate, World, ask, been, failed_node, graph, pass, path_of, trail,
};

fn thread_of(graph: StateGraph<Trail, World>, world: &World) -> Thread<Trail, World> {
    let graph = graph.checkpointer(MemorySaver::new()).compile().expect("the graph is sound");
    graph.thread("t", world.clone())
}

fn ids(interrupts: &[Interrupt]) -> Vec<String> {
    interrupts.iter().map(|it| it.id.clone()).collect()
}

#[tokio::test]
async fn a_question_stops_the_run_until_it_is_answered() {
    let world = World::default();
    let thread = thread_of(graph().node(ask).node(pass).edge(START, ask).edge(ask, pass), &world);
    let exit = thread.run(Trail::default()).await.unwrap();
    assert!(!exit.is_done());
    assert_eq!(exit.interrupts()[0].value, "ask?");
    assert!(exit.interrupts()[0].namespace.starts_with("ask:"));

    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.next, ["ask"]);
    assert_eq!(
        state.interrupts().collect::<Vec<_>>(),
        exit.interrupts().iter().collect::<Vec<_>>()
    );

    let exit = thread.resume("yes").await.unwrap();
    assert!(exit.is_done());
    assert_eq!(exit.state(), &trail(["yes", "pass"]));
    assert_eq!(world.trace(), "1: ask ask | 2: pass");
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
    let graph = StateGraph::<Form>::new()
        .node(fill)
        .edge(START, fill)
        .checkpointer(MemorySaver::new())
        .compile()
        .expect("the graph is sound");
    graph.thread("t", ())
}

#[tokio::test]
async fn a_node_asks_one_question_after_the_other() {
    let thread = form();
    let first = thread.run(Form::default()).await.unwrap();
    let second = thread.resume("Ada").await.unwrap();
    assert_eq!(second.interrupts()[0].value, json!({"age of": "Ada"}));
    assert_ne!(first.interrupts()[0].id, second.interrupts()[0].id);
    let done = thread.resume(36).await.unwrap();
    assert_eq!(done.state(), &Form { name: "Ada".into(), age: 36 });
}

#[tokio::test]
async fn an_answer_that_does_not_fit_can_be_given_again() {
    let thread = form();
    assert_eq!(thread.run(Form::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(thread.resume("Ada").await.unwrap().interrupts().len(), 1);

    let error = thread.resume("old").await.unwrap_err();
    let bad = error.node_error::<BadAnswer>().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(bad.node, "fill");
    let state = thread.state().await.unwrap().unwrap();
    let waiting: Vec<_> = state.interrupts().map(|it| it.value.clone()).collect();
    assert_eq!(waiting, [json!({"age of": "Ada"})], "the question still waits");

    let done = thread.resume(36).await.unwrap();
    assert_eq!(done.state(), &Form { name: "Ada".into(), age: 36 });
}

#[tokio::test]
async fn an_answer_by_id_that_does_not_fit_can_be_given_again() {
    let thread = form();
    let exit = thread.run(Form::default()).await.unwrap();
    let id = exit.interrupts()[0].id.clone();
    thread.resume_each([(id.clone(), json!(5))]).await.unwrap_err();
    let exit = thread.resume_each([(id, json!("Ada"))]).await.unwrap();
    assert_eq!(exit.interrupts()[0].value, json!({"age of": "Ada"}));
}

fn three() -> StateGraph<Trail, World> {
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
async fn several_questions_are_answered_by_id() {
    let world = World::default();
    let thread = thread_of(three(), &world);
    let exit = thread.run(Trail::default()).await.unwrap();
    let values: Vec<_> = exit.interrupts().iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, ["a?", "b?"]);
    assert_eq!(exit.state(), &trail(["c"]), "a finished sibling counts");
    assert_eq!(world.trace(), "1: a b c");

    let ids = ids(exit.interrupts());
    let exit = thread.resume_each([(ids[1].clone(), json!("B"))]).await.unwrap();
    assert_eq!(exit.interrupts().len(), 1);
    assert_eq!(exit.interrupts()[0].id, ids[0], "the other question is the same one");
    assert_eq!(world.count("c"), 0, "what finished does not run again");

    let exit = thread.resume("A").await.unwrap();
    assert_eq!(exit.state(), &trail(["A", "B", "c", "d"]));
}

#[tokio::test]
async fn all_questions_are_answered_at_once() {
    let world = World::default();
    let thread = thread_of(three(), &world);
    let exit = thread.run(Trail::default()).await.unwrap();
    let answers = exit.interrupts().iter().map(|it| (it.id.clone(), json!("yes")));
    let exit = thread.resume_each(answers).await.unwrap();
    assert_eq!(exit.state(), &trail(["yes", "yes", "c", "d"]));
}

#[tokio::test]
async fn one_answer_for_several_questions_is_ambiguous() {
    let world = World::default();
    let thread = thread_of(three(), &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 2);
    world.trace();
    let error = thread.resume("x").await.unwrap_err();
    assert!(matches!(error, RunError::AmbiguousResume { pending: 2 }), "{error}");
    assert_eq!(world.trace(), "", "nothing has run");
}

#[tokio::test]
async fn an_unknown_question_is_refused() {
    let world = World::default();
    let thread = thread_of(three(), &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 2);
    let error = thread.resume_each([("nobody".to_owned(), json!(1))]).await.unwrap_err();
    assert!(matches!(&error, RunError::UnknownInterrupt { id } if id == "nobody"), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.interrupts().count(), 2);
}

async fn approve(item: Item, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), &format!("approve({})", item.0)).await?;
    let answer: String = cx.interrupt(item.0)?;
    Ok(been(&format!("{} {answer}", item.0)))
}

#[tokio::test]
async fn sent_tasks_ask_each_for_themselves() {
    let world = World::default();
    let sends = |_: &Trail| (1..=3).map(|it| send(approve, Item(it))).collect::<Vec<_>>();
    let thread = thread_of(graph().node(approve).branch(START, sends), &world);
    let exit = thread.run(Trail::default()).await.unwrap();
    let values: Vec<_> = exit.interrupts().iter().map(|it| it.value.clone()).collect();
    assert_eq!(values, [1, 2, 3]);
    world.trace();

    let answers = exit.interrupts()[1..].iter().map(|it| (it.id.clone(), json!("ok")));
    let exit = thread.resume_each(answers).await.unwrap();
    assert_eq!(exit.interrupts()[0].value, 1);
    assert_eq!(path_of(&thread).await, ["2 ok", "3 ok"]);
    world.trace();
    let exit = thread.resume("no").await.unwrap();
    assert_eq!(exit.state(), &trail(["1 no", "2 ok", "3 ok"]));
    assert_eq!(world.trace(), "1: approve(1)");
}

fn nested() -> StateGraph<Trail, World> {
    let inner = graph()
        .node_as("before", pass)
        .node_as("inner", ask)
        .sequence(["before", "inner"])
        .compile()
        .expect("the graph is sound");
    let whole = |it: Trail| Trail::update().path(it.path);
    graph().node(subgraph("sub", &inner, |_: &Trail| Trail::default(), whole)).edge(START, "sub")
}

#[tokio::test]
async fn a_question_inside_a_subgraph_is_answered_from_outside() {
    for by_id in [false, true] {
        let world = World::default();
        let thread = thread_of(nested(), &world);
        let exit = thread.run(Trail::default()).await.unwrap();
        let [question] = exit.interrupts() else { panic!("one question") };
        let parts: Vec<_> = question.namespace.split('|').collect();
        assert!(parts[0].starts_with("sub:") && parts[1].starts_with("inner:"), "{parts:?}");
        assert_eq!(world.trace(), "1: before | 2: inner");
        let exit = match by_id {
            true => thread.resume_each([(question.id.clone(), json!("in"))]).await.unwrap(),
            false => thread.resume("in").await.unwrap(),
        };
        assert_eq!(exit.state(), &trail(["before", "in"]));
        assert_eq!(world.trace(), "2: inner", "what finished inside does not run again");
    }
}

#[tokio::test]
async fn a_bad_answer_inside_a_subgraph_can_be_given_again() {
    let world = World::default();
    let thread = thread_of(nested(), &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let error = thread.resume(5).await.unwrap_err();
    assert!(error.node_error::<BadAnswer>().is_some(), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.interrupts().count(), 1, "the question still waits");
    let exit = thread.resume("in").await.unwrap();
    assert_eq!(exit.state(), &trail(["before", "in"]));
}

#[tokio::test]
async fn a_failure_beats_a_question_which_is_kept() {
    let world = World::default();
    let thread = thread_of(three(), &world);
    world.breaks("c", 1);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(failed_node(&error), "c");
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.interrupts().len(), 2);
    assert_eq!(exit.state(), &trail(["c"]));
}

#[tokio::test]
async fn an_answer_comes_with_an_update_and_a_goto() {
    let world = World::default();
    let built = graph().node(ask).node_as("other", pass).edge(START, ask).branch(
        ask,
        |it: &Trail| match it.note.as_str() {
            "go" => vec![Goto::node("other")],
            _ => vec![],
        },
    );
    let thread = thread_of(built, &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let input = Input::resume("A").unwrap().with_update(Trail::update().note("go"));
    let exit = thread.run(input).await.unwrap();
    assert_eq!(
        (exit.state().note.as_str(), &exit.state().path[..]),
        ("go", &["A".to_owned(), "other".to_owned()][..])
    );
}

#[tokio::test]
async fn an_answered_checkpoint_takes_the_new_answer() {
    let world = World::default();
    let thread = thread_of(graph().node(ask).edge(START, ask), &world);
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    let asked = thread.state().await.unwrap().unwrap().id;
    assert_eq!(thread.resume("old").await.unwrap().state(), &trail(["old"]));
    let exit = thread.at(asked).resume("new").await.unwrap();
    assert_eq!(exit.state(), &trail(["new"]));
    let exit = thread.at(asked).proceed().await.unwrap();
    assert_eq!(exit.interrupts().len(), 1, "without an answer it asks again");
}

#[tokio::test]
async fn a_run_without_thread_says_what_was_asked() {
    let graph = graph().node(ask).edge(START, ask).compile().unwrap();
    let error = graph.run(Trail::default(), World::default()).await.unwrap_err();
    assert!(
        matches!(&error, RunError::Unfinished(_)) && error.to_string().contains("ask?"),
        "{error}"
    );
}

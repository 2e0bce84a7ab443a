use graph_agents::{
    Message, Messages, MessagesState, NewMessages, REMOVE_ALL, add_messages, messages_from_json,
};
use graph_core::{MemorySaver, START, StateGraph, checkpoint::Change, reduce::Reducer};
use serde_json::json;

fn human(id: &str, text: &str) -> Message {
    Message::human(text).with_id(id)
}

#[test]
fn known_ids_are_replaced_in_place() {
    let old = vec![human("1", "a"), human("2", "b")];
    let new = add_messages(old, vec![Message::ai("A").with_id("1")]).unwrap();
    assert_eq!(new, [Message::ai("A").with_id("1"), human("2", "b")]);
}

#[test]
fn missing_ids_are_assigned_once() {
    let first = add_messages(Vec::new(), vec![Message::human("a")]).unwrap();
    let second = add_messages(first.clone(), vec![Message::human("b")]).unwrap();
    assert!(first[0].id().is_some());
    assert_eq!(first[0], second[0]);
}

#[test]
fn removal_of_an_unknown_id_is_an_error() {
    let error = add_messages(vec![human("1", "a")], vec![Message::remove("2")]).unwrap_err();
    assert_eq!(error.name(), "ValueError");
}

#[test]
fn only_messages_after_the_last_remove_all_are_kept() {
    let update = vec![human("2", "b"), Message::remove(REMOVE_ALL), human("3", "c")];
    assert_eq!(add_messages(vec![human("1", "a")], update).unwrap(), [human("3", "c")]);
}

#[test]
fn stored_change_contains_only_new_and_changed_messages() {
    let current = vec![human("1", "a"), human("2", "b"), human("3", "c")];
    let change = |update: Vec<Message>| Messages::delta(&current, &NewMessages::from(update));
    let put = |position: usize, it: Message| (position, serde_json::to_value(it).unwrap());
    let update = vec![human("1", "a"), human("2", "B"), human("3", "c"), human("4", "d")];
    let expected = Change::Put(vec![put(1, human("2", "B")), put(3, human("4", "d"))]);
    assert_eq!(change(update), Some(expected));
    assert_eq!(change(current.clone()), Some(Change::Put(Vec::new())));
    // The second message equals the one in the list, but the first one replaces that, so both are stored.
    let update = vec![human("1", "A"), human("1", "a")];
    let expected = Change::Put(vec![put(0, human("1", "A")), put(0, human("1", "a"))]);
    assert_eq!(change(update), Some(expected));
}

#[test]
fn replacement_that_begins_with_the_unchanged_list_stores_only_the_rest() {
    let current = vec![human("1", "a"), human("2", "b")];
    let replace = |list: &[Message]| [vec![Message::remove_all()], list.to_vec()].concat();
    let change = |list: &[Message]| Messages::delta(&current, &NewMessages::from(replace(list)));
    let longer = [current.clone(), vec![human("3", "c"), human("1", "d")]].concat();
    let put = |position: usize| (position, serde_json::to_value(&longer[position]).unwrap());
    assert_eq!(change(&longer), Some(Change::Put(vec![put(2), put(3)])));
    assert_eq!(change(&current), Some(Change::Put(Vec::new())));
    assert_eq!(change(&longer[1..]), None);
    // A replacement is not merged, so an id can occur twice.
    assert_eq!(add_messages(current.clone(), replace(&longer)).unwrap(), longer);
}

#[test]
fn short_forms_become_messages() {
    let messages = json!(["hi", ["assistant", "hello"], {"role": "system", "content": "x"}]);
    let messages = messages_from_json(&messages);
    let kinds: Vec<_> = messages.unwrap().iter().map(Message::kind).collect();
    assert_eq!(kinds, ["human", "ai", "system"]);
}

#[test]
fn the_source_of_a_message_is_kept() {
    for role in ["human", "system"] {
        let json = json!({"role": role, "content": "x", "source": "summarization"});
        let message = messages_from_json(&json).unwrap().remove(0);
        assert_eq!(serde_json::to_value(message).unwrap()["source"], "summarization", "{role}");
    }
}

async fn reply(state: &MessagesState) -> graph_agents::MessagesStateUpdate {
    MessagesState::update()
        .messages(vec![Message::ai(format!("{} messages", state.messages.len()))])
}

#[tokio::test]
async fn typed_state_keeps_the_conversation_of_a_thread() {
    let graph = StateGraph::<MessagesState>::new()
        .node(reply)
        .edge(START, reply)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", ());
    for text in ["one", "two"] {
        let input = MessagesState { messages: vec![Message::human(text)] };
        let _ = thread.run(input).await.unwrap();
    }
    let state = thread.state().await.unwrap().unwrap().values;
    let texts: Vec<_> = state.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["one", "1 messages", "two", "3 messages"]);
    assert!(state.messages.iter().all(|it| it.id().is_some()));
}

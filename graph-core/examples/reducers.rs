//! Reducers: two nodes of one step write the same fields, and each field combines the writes in its own way.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::collections::BTreeMap;

use graph_core::{START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Survey {
    #[state(input)]
    question: String,
    #[reduce(append)]
    answers: Vec<String>,
    #[reduce(add)]
    votes: u32,
    #[reduce(max)]
    longest: usize,
    #[reduce(merge)]
    by_person: BTreeMap<String, String>,
}

fn reply(person: &str, answer: &str) -> SurveyUpdate {
    Survey::update()
        .answers([answer.to_owned()])
        .votes(1)
        .longest(answer.len())
        .by_person([(person.to_owned(), answer.to_owned())])
}

async fn ask_ada(_: &Survey) -> SurveyUpdate {
    reply("Ada", "tea")
}

async fn ask_bob(_: &Survey) -> SurveyUpdate {
    reply("Bob", "coffee")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Survey>::new()
        .node(ask_ada)
        .node(ask_bob)
        .edge(START, ask_ada)
        .edge(START, ask_bob)
        .compile()?;
    let input = Survey { question: "Tea or coffee?".into(), ..Default::default() };
    println!("{:#?}", graph.invoke(input, ()).await?);
    Ok(())
}

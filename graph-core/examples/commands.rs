//! Commands: a node updates the state and chooses the next node with one return value.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{Command, END, Route, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Ticket {
    text: String,
    team: String,
    reply: String,
}

#[derive(Route)]
enum Next {
    #[to(billing)]
    Billing,
    #[to(support)]
    Support,
    #[to(END)]
    Nobody,
}

async fn triage(ticket: &Ticket) -> Command<Ticket, Next> {
    match ticket.text.as_str() {
        text if text.contains("invoice") => Ticket::update().team("billing").goto(Next::Billing),
        text if text.contains("broken") => Ticket::update().team("support").goto(Next::Support),
        _ => Command::goto(Next::Nobody),
    }
}

async fn billing(_: &Ticket) -> TicketUpdate {
    Ticket::update().reply("Your invoice is paid.")
}

async fn support(_: &Ticket) -> TicketUpdate {
    Ticket::update().reply("Did you turn it off and on again?")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Ticket>::new()
        .node(triage)
        .node(billing)
        .node(support)
        .edge(START, triage)
        .compile()?;
    for text in ["Where is my invoice?", "The printer is broken.", "Hello!"] {
        let ticket = graph.invoke(Ticket { text: text.into(), ..Default::default() }, ()).await?;
        println!("{text} → team {:?}, reply {:?}", ticket.team, ticket.reply);
    }
    Ok(())
}

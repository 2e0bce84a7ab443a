//! An eager graph: a fast branch does not wait for a slow one, and the result is the same.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::time::Duration;

use graph_core::{NodeExt, START, State, StateGraph};
use tokio::time::{Instant, sleep};

#[derive(State, Clone, Debug, Default)]
struct Trip {
    hotel: String,
    flight: String,
    summary: String,
}

async fn find_hotel(_: &Trip) -> TripUpdate {
    sleep(Duration::from_millis(300)).await;
    Trip::update().hotel("hotel")
}

async fn find_flight(_: &Trip) -> TripUpdate {
    sleep(Duration::from_millis(10)).await;
    Trip::update().flight("flight")
}

async fn book_flight(trip: &Trip) -> TripUpdate {
    sleep(Duration::from_millis(290)).await;
    Trip::update().flight(format!("booked {}", trip.flight))
}

async fn summarize(trip: &Trip) -> TripUpdate {
    Trip::update().summary(format!("{}, {}", trip.hotel, trip.flight))
}

fn graph() -> StateGraph<Trip> {
    StateGraph::new()
        .node(find_hotel.reads(["hotel"]).writes(["hotel"]))
        .node(find_flight.reads(["flight"]).writes(["flight"]))
        .node(book_flight.reads(["flight"]).writes(["flight"]))
        .node(summarize.reads(["hotel", "flight"]).writes(["summary"]))
        .edge(START, find_hotel)
        .edge(START, find_flight)
        .edge(find_flight, book_flight)
        .join(["find_hotel", "book_flight"], summarize)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (name, graph) in [("ordinary", graph()), ("eager", graph().eager())] {
        let start = Instant::now();
        let trip = graph.compile()?.invoke(Trip::default(), ()).await?;
        println!("{name}: {} after {} ms", trip.summary, start.elapsed().as_millis());
    }
    Ok(())
}

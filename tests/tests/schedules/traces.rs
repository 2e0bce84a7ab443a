//! Traces of eager graphs do not depend on the order in which tasks end: they are equal byte for byte.

use std::collections::BTreeSet;

use fastrand::Rng;
use graph_core::{
    CompiledGraph, Context, END, Goto, Input, MemorySaver, NodeError, NodeExt, Route, START, State,
    StateGraph, send,
};
use graph_trace::{Detail, TextOptions, record_thread};
use serde::{Deserialize, Serialize};

use crate::gates::Gates;

const SCHEDULES: u64 = 200;

#[derive(State, Clone, Debug, Default)]
struct Trip {
    hotel: String,
    flight: String,
    car: String,
    #[reduce(append)]
    tours: Vec<String>,
    #[reduce(add)]
    rounds: u32,
    plan: String,
}

type Graph = StateGraph<Trip, Gates>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct City(String);

/// Emits an event, makes an external call, and waits at the gate of the task.
async fn work(cx: &Context<Gates>, what: &str) -> Result<String, NodeError> {
    cx.emit(format!("{} starts", cx.node())).await;
    let name = format!("{what} {}", cx.step());
    let call = cx.task("look_up", &name, async { Ok::<_, NodeError>(format!("{name} found")) });
    let found: String = call.await?;
    cx.deps().pass(format!("{} {name}", cx.node())).await;
    cx.emit(format!("{} ends", cx.node())).await;
    Ok(found)
}

async fn hotel(trip: &Trip, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    Ok(Trip::update().hotel(format!("{}{} ", trip.hotel, work(cx, "hotel").await?)))
}

async fn flight(trip: &Trip, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    Ok(Trip::update().flight(format!("{}{} ", trip.flight, work(cx, "flight").await?)))
}

async fn car(trip: &Trip, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    Ok(Trip::update().car(format!("{}{} ", trip.car, work(cx, "car").await?)))
}

async fn ask_flight(_: &Trip, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    work(cx, "flight").await?;
    Ok(Trip::update().flight(cx.interrupt::<String>("which flight?")?))
}

async fn tour(city: City, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    Ok(Trip::update().tours([work(cx, &city.0).await?]))
}

async fn round(trip: &Trip, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    work(cx, &format!("round {}", trip.rounds)).await?;
    Ok(Trip::update().rounds(1))
}

async fn plan(trip: &Trip, cx: &Context<Gates>) -> Result<TripUpdate, NodeError> {
    work(cx, "plan").await?;
    Ok(Trip::update().plan(format!(
        "{}{}{}{}",
        trip.hotel,
        trip.flight,
        trip.car,
        trip.tours.len()
    )))
}

#[derive(Route)]
enum Next {
    #[to(round)]
    Again,
    #[to(END)]
    Enough,
}

fn next(trip: &Trip) -> Next {
    if trip.rounds < 3 { Next::Again } else { Next::Enough }
}

fn tours(_: &Trip) -> Vec<Goto> {
    ["Rome", "Oslo", "Bern"].map(|it| send(tour, City(it.to_owned()))).into()
}

/// Three branches of three steps each, which meet at a join.
fn branches() -> Graph {
    let mut graph = StateGraph::new();
    for name in ["hotel1", "hotel2", "hotel3"] {
        graph = graph.node_as(name, hotel.reads(["hotel"]).writes(["hotel"]));
    }
    for name in ["flight1", "flight2", "flight3"] {
        graph = graph.node_as(name, flight.reads(["flight"]).writes(["flight"]));
    }
    for name in ["car1", "car2", "car3"] {
        graph = graph.node_as(name, car.reads(["car"]).writes(["car"]));
    }
    graph
        .node(plan.reads(["hotel", "flight", "car", "tours"]).writes(["plan"]))
        .sequence(["hotel1", "hotel2", "hotel3"])
        .sequence(["flight1", "flight2", "flight3"])
        .sequence(["car1", "car2", "car3"])
        .join(["hotel3", "flight3", "car3"], plan)
}

/// The graph of [`branches`] with a loop, and with payloads that are sent at the start.
fn loops_and_sends() -> Graph {
    branches()
        .node(tour.writes(["tours"]))
        .node(round.reads(["rounds"]).writes(["rounds"]))
        .edge(START, round)
        .branch(round, next)
        .branch(START, tours)
}

/// Branches of which one is interrupted.
fn interrupted() -> Graph {
    branches()
        .node_as("ask", ask_flight.reads(["flight"]).writes(["flight"]))
        .edge("flight3", "ask")
}

fn compile(graph: Graph) -> CompiledGraph<Trip, Gates> {
    graph.checkpointer(MemorySaver::new()).compile().expect("the graph is valid")
}

/// Runs a graph to its end, opening gates in a shuffled order. Returns the full trace and the order of the tasks.
async fn trace(graph: &CompiledGraph<Trip, Gates>, schedule: u64) -> (String, Vec<String>) {
    let (gates, mut rng) = (Gates::default(), Rng::with_seed(schedule));
    let thread = graph.thread(format!("schedule {schedule}"), gates.clone());
    let run = async {
        let mut recorded = record_thread(&thread, Trip::default()).await;
        while recorded.outcome.as_ref().is_ok_and(|it| !it.interrupts().is_empty()) {
            let answer = Input::resume("the first one").expect("text can be serialized");
            recorded = recorded.then(&thread, answer).await;
        }
        recorded.trace.text(TextOptions::new(Detail::Full))
    };
    let trace = gates.drive(run, |waiting| Some(rng.usize(0..waiting.len()))).await;
    (trace.expect("the run is not aborted"), gates.passed())
}

/// Returns the step of a task, which is the last word of its name.
fn step(task: &str) -> i64 {
    let step = task.rsplit(' ').next().and_then(|it| it.parse().ok());
    step.expect("the name of a task ends with its step")
}

/// Checks that all schedules give the same trace. Returns the trace.
async fn check(build: fn() -> Graph) -> String {
    let graph = compile(build().eager());
    let (expected, _) = trace(&graph, 0).await;
    let mut orders = BTreeSet::new();
    for schedule in 1..=SCHEDULES {
        let (got, order) = trace(&graph, schedule).await;
        assert_eq!(got, expected, "schedule {schedule}: {order:?}");
        orders.insert(order);
    }
    assert!(orders.len() > 100, "only {} schedules differ", orders.len());
    assert!(orders.iter().any(|it| !it.is_sorted_by_key(|it| step(it))), "no task ran ahead");
    expected
}

#[tokio::test]
async fn branches_and_a_join_have_one_trace() {
    let ordinary = trace(&compile(branches()), 0).await.0;
    assert_eq!(check(branches).await, ordinary);
}

#[tokio::test]
async fn loops_and_payloads_have_one_trace() {
    let ordinary = trace(&compile(loops_and_sends()), 0).await.0;
    assert_eq!(check(loops_and_sends).await, ordinary);
}

/// A task that ran ahead of an interrupt is reported as recorded, so the trace is not that of an ordinary graph.
#[tokio::test]
async fn interrupted_branches_have_one_trace() {
    let trace = check(interrupted).await;
    assert!(trace.contains("which flight?"), "{trace}");
}

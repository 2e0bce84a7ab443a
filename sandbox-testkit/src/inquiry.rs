//! A graph for tests of subgraphs in sandboxes, and the graph that contains it.

use std::{sync::Arc, time::Duration};

use graph_core::{
    BuildError, Checkpointer, Command, CompiledGraph, Context, Goto, MemorySaver, NoRoute,
    NodeError, NodeExt, Persistence, START, State, StateGraph, SubgraphSource, checkpoint::Lookup,
    subgraph,
};
use sandbox_vm::{HostFunction, guest::Host};

/// The function of the host that answers the prompts of an inquiry.
pub const ASK: HostFunction<String, String> = HostFunction::new("ask");

/// Returns the answer that tests give to a prompt.
pub fn answer(prompt: &str) -> String {
    format!("{prompt}: yes")
}

/// State of an inquiry.
#[derive(State, Clone, Debug, Default)]
pub struct Inquiry {
    /// Subject of the inquiry.
    pub topic: String,
    /// Additional action of the inquiry: `interrupt`, `fail`, `open-files`, `escape`, `hang`, `pulse` or `spy`. Empty
    /// for none.
    pub mode: String,
    /// Number of inquiries so far. It exceeds 1 only with thread persistence.
    #[reduce(add)]
    pub count: u32,
    /// Findings of the nodes, in order.
    #[reduce(append)]
    pub log: Vec<String>,
}

/// Time between two heartbeats of an inquiry with mode `pulse`.
pub const PULSE: Duration = Duration::from_secs(1);

/// Number of heartbeats of an inquiry with mode `pulse`.
pub const PULSES: u32 = 10;

type Deps = Option<Host>;

/// Builds the inquiry. Its dependency is the host that answers its prompts. Without a host, it answers them itself.
pub fn inquiry(saver: Arc<dyn Checkpointer>) -> Result<CompiledGraph<Inquiry, Deps>, BuildError> {
    let polishing = StateGraph::<Inquiry, Deps>::new()
        .name("polishing")
        .node(polish)
        .edge(START, polish)
        .compile()?;
    StateGraph::new()
        .name("inquiry")
        .node(research)
        .node(verify)
        .node(review)
        .node(&polishing)
        .node(conclude)
        .edge(START, research)
        .edge(START, verify)
        .join((research, verify), review)
        .edge(review, &polishing)
        .edge(&polishing, conclude)
        .shared_checkpointer(saver)
        .compile()
}

async fn ask(prompt: String, cx: &Context<Deps>) -> Result<String, NodeError> {
    match cx.deps() {
        Some(host) => ASK.call(host, cx, 0, &prompt).await,
        None => cx.task(ASK.kind(), 0, async { Ok(answer(&prompt)) }).await,
    }
}

async fn research(inquiry: &Inquiry, cx: &Context<Deps>) -> Result<InquiryUpdate, NodeError> {
    cx.emit(format!("researching {}", inquiry.topic)).await;
    let found = ask(format!("what is {}", inquiry.topic), cx).await?;
    Ok(Inquiry::update().log([found]).count(1))
}

async fn verify(inquiry: &Inquiry, cx: &Context<Deps>) -> Result<InquiryUpdate, NodeError> {
    Ok(Inquiry::update().log([ask(format!("is {} real", inquiry.topic), cx).await?]))
}

async fn review(inquiry: &Inquiry, cx: &Context<Deps>) -> Result<InquiryUpdate, NodeError> {
    if inquiry.mode != "interrupt" {
        return Ok(Inquiry::update());
    }
    let remark: String = cx.interrupt(format!("any remark on {}?", inquiry.log.join(", ")))?;
    Ok(Inquiry::update().log([remark]))
}

async fn polish(inquiry: &Inquiry, cx: &Context<Deps>) -> Result<InquiryUpdate, NodeError> {
    let polished = ask(format!("polish {}", inquiry.log.len()), cx).await?;
    Ok(Inquiry::update().log([polished]))
}

async fn conclude(
    inquiry: &Inquiry,
    cx: &Context<Deps>,
) -> Result<Command<Inquiry, NoRoute, Goto>, NodeError> {
    match inquiry.mode.as_str() {
        "fail" => Err("the inquiry found nothing".into()),
        // The operating system's error has the same message.
        "open-files" => Err("Too many open files (os error 24)".into()),
        "escape" => {
            let update = Report::update().findings(["the inquiry gave up".to_owned()]);
            Ok(Command::parent::<Report>(update, Goto::node("calm")))
        }
        "hang" => std::future::pending().await,
        "pulse" => {
            for _ in 0..PULSES {
                cx.heartbeat();
                tokio::time::sleep(PULSE).await;
            }
            Ok(Command::update(Inquiry::update()))
        }
        "spy" => {
            let saver = cx.deps().as_ref().map(Host::checkpointer);
            let saver = saver.ok_or("only a guest can spy")?;
            saver.get(&Lookup::head(cx.thread().unwrap_or_default(), "")).await?;
            Ok(Command::update(Inquiry::update()))
        }
        _ => Ok(Command::update(Inquiry::update().log(["done".to_owned()]))),
    }
}

/// State of a report, which contains an inquiry.
#[derive(State, Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Subject of the report.
    pub topic: String,
    /// See [`Inquiry::mode`].
    pub mode: String,
    /// Results of the inquiries.
    #[reduce(append)]
    pub findings: Vec<String>,
    /// Number of inquiries so far, as reported by the last one.
    pub count: u32,
}

/// Options of [`report`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportOptions {
    /// Persistence of the inquiry.
    pub persistence: Persistence,
    /// Timeout of the node that runs the inquiry.
    pub timeout: Option<Duration>,
    /// Idle timeout of the node that runs the inquiry.
    pub idle_timeout: Option<Duration>,
}

/// Builds a report that runs the given inquiry twice. The inquiry is a compiled graph or a sandboxed one.
pub fn report(
    inquiry: &impl SubgraphSource<Deps, State = Inquiry>,
    options: ReportOptions,
) -> Result<CompiledGraph<Report, Deps>, BuildError> {
    let node = |name: &str| {
        let input = |report: &Report| Inquiry {
            topic: report.topic.clone(),
            mode: report.mode.clone(),
            ..Default::default()
        };
        let output = |inquiry: Inquiry| {
            Report::update().findings([inquiry.log.join(", ")]).count(inquiry.count)
        };
        subgraph(name, inquiry, input, output).persistence(options.persistence)
    };
    let (inquire, appendix) = (node("inquire"), node("appendix"));
    let limit = options.timeout.unwrap_or(Duration::MAX);
    let idle = options.idle_timeout.unwrap_or(Duration::MAX);
    StateGraph::new()
        .node(plan)
        .node(inquire.clone().timeout(limit).idle_timeout(idle))
        .node(calm)
        .node(&appendix)
        .edge(START, plan)
        .edge(plan, &inquire)
        .edge(&inquire, calm)
        .edge(calm, &appendix)
        .checkpointer(MemorySaver::new())
        .compile()
}

async fn plan(_: &Report) {}

/// Clears the mode, so that the second inquiry runs normally.
async fn calm(_: &Report) -> ReportUpdate {
    Report::update().mode("")
}

//! A test that runs a two-round debate on a real model: a critic attacks a plan, three decision makers defend it, and
//! each decision maker scores it at the end.

use std::time::Instant;

use graph_core::{Context, END, NodeError, NodeExt, RetryPolicy, Route, START, State, StateGraph};
use llm::{Backoff, Budget, Llm, LocalModel, Message, Model, Request};
use serde::{Deserialize, Serialize};

use crate::real::{Counted, PLAN, Scores, models};

const CRITIC: &str = "You were the chief of finance of three companies that failed by overconfidence. You find \
    the weak points of a plan, name them exactly, and grant what is strong. Speak in one or two sentences.";

const MAKERS: [&str; 3] = [
    "You sit on a board of directors and think of growth: markets, timing, lasting advantage. You like bold plans. \
     Speak in one or two sentences.",
    "You sit on a board of directors and think of the work: people, means, first steps. You like bold plans that \
     can be done. Speak in one or two sentences.",
    "You sit on a board of directors and think of owners, customers and the name of the firm. You like bold plans \
     that people see. Speak in one or two sentences.",
];

const ROUNDS: u32 = 2;

#[derive(State, Clone, Debug, Default)]
struct Debate {
    plan: String,
    round: u32,
    #[reduce(append)]
    growth: Vec<Turn>,
    #[reduce(append)]
    work: Vec<Turn>,
    #[reduce(append)]
    owners: Vec<Turn>,
    scores: Vec<Scores>,
}

/// One contribution to the debate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Turn {
    by: Speaker,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Speaker {
    Critic,
    Maker,
}

impl Speaker {
    /// Returns the instruction for the speaker who answers this one. Small models repeat the last message unless the
    /// instruction tells them how to begin.
    fn prompt(self) -> &'static str {
        match self {
            Self::Critic => "Speak for the plan now, in new words. Begin with: It works because",
            Self::Maker => {
                "Name a risk of another kind now, in new words. Begin with: Another risk is"
            }
        }
    }
}

impl Debate {
    fn logs(&self) -> [&[Turn]; 3] {
        [&self.growth, &self.work, &self.owners]
    }

    /// Returns the conversation so far from a speaker's point of view. Each conversation extends the previous one, so
    /// a model processes only the new messages.
    fn conversation(&self, speaker: Speaker, system: &str, log: &[Turn]) -> Request {
        let plan = Message::user(format!("The plan: {}", self.plan));
        let turns = log.iter().map(|turn| match turn.by {
            by if by == speaker => Message::assistant(turn.text.as_str()),
            by => Message::user(format!("{by:?}: {}\n\n{}", turn.text, by.prompt())),
        });
        let request = Request::conversation(std::iter::once(plan).chain(turns).collect());
        request.system(system).temperature(0.7).seed(7 + log.len() as u64)
    }
}

async fn say(llm: &Llm, by: Speaker, request: Request) -> Result<Turn, NodeError> {
    let text = llm.generate(request.max_tokens(48)).await?.text().trim().to_owned();
    Ok(Turn { by, text })
}

fn update([growth, work, owners]: [Turn; 3]) -> DebateUpdate {
    Debate::update().growth([growth]).work([work]).owners([owners])
}

/// Makes the first attack, which is sent to all three decision makers.
async fn attack(debate: &Debate, cx: &Context<Llm>) -> Result<DebateUpdate, NodeError> {
    let llm = cx.deps().clone().journal(cx);
    let turn =
        say(&llm, Speaker::Critic, debate.conversation(Speaker::Critic, CRITIC, &[])).await?;
    Ok(update([turn.clone(), turn.clone(), turn]).round(1_u32))
}

/// Lets the three decision makers answer concurrently, each in its own log.
async fn defend(debate: &Debate, cx: &Context<Llm>) -> Result<DebateUpdate, NodeError> {
    let llm = cx.deps().clone().journal(cx);
    let logs = debate.logs();
    let answer = |at: usize| {
        say(&llm, Speaker::Maker, debate.conversation(Speaker::Maker, MAKERS[at], logs[at]))
    };
    let (growth, work, owners) = tokio::try_join!(answer(0), answer(1), answer(2))?;
    Ok(update([growth, work, owners]))
}

/// Lets the critic attack again in each of the three logs.
async fn press(debate: &Debate, cx: &Context<Llm>) -> Result<DebateUpdate, NodeError> {
    let llm = cx.deps().clone().journal(cx);
    let logs = debate.logs();
    let reply = |at: usize| {
        say(&llm, Speaker::Critic, debate.conversation(Speaker::Critic, CRITIC, logs[at]))
    };
    let (growth, work, owners) = tokio::try_join!(reply(0), reply(1), reply(2))?;
    Ok(update([growth, work, owners]).round(debate.round + 1))
}

/// Lets each decision maker score the plan. The first attempt of this node fails at its end; the second attempt must
/// not repeat the calls.
async fn score(debate: &Debate, cx: &Context<Llm>) -> Result<DebateUpdate, NodeError> {
    let llm = cx.deps().clone().journal(cx);
    let logs = debate.logs();
    let score = async |at: usize| {
        let request = debate.conversation(Speaker::Maker, MAKERS[at], logs[at]);
        let question = "The debate is over. Score the plan from 1 to 10 as you honestly see it now: what stayed \
            unanswered lowers the scores.";
        let request = request.message(Message::user(question)).max_tokens(120);
        llm.generate_json::<Scores>(request).await.map_err(NodeError::terminal)
    };
    let (growth, work, owners) = tokio::try_join!(score(0), score(1), score(2))?;
    if cx.attempt() == 1 {
        return Err("the lights went out".into());
    }
    let scores = [growth, work, owners].map(|it| {
        eprintln!("scored by {}: {:?}", it.method, it.value);
        it.value
    });
    Ok(Debate::update().scores(Vec::from(scores)))
}

#[derive(Route)]
enum Next {
    #[to(press)]
    Again,
    #[to(score)]
    Score,
}

fn next(debate: &Debate) -> Next {
    if debate.round < ROUNDS { Next::Again } else { Next::Score }
}

#[tokio::test(flavor = "multi_thread")]
async fn debate_ends_with_scores() {
    let graph = StateGraph::<Debate, Llm>::new()
        .node(attack)
        .node(defend)
        .node(press)
        .node(score.retry(RetryPolicy::max_attempts(2)))
        .edge(START, attack)
        .edge(attack, defend)
        .branch(defend, next)
        .edge(press, defend)
        .edge(score, END)
        .compile()
        .unwrap();
    for model in models() {
        let budget = Budget::of_tokens(100_000);
        let counted = Counted::new(model.clone());
        let llm = Llm::new(counted.clone()).retry(Backoff::default()).budget(&budget);
        let start = Instant::now();
        let debate = Debate { plan: PLAN.into(), ..Debate::default() };
        let debate = graph.invoke(debate, llm).await.unwrap();
        let took = start.elapsed();

        for (log, name) in debate.logs().iter().zip(["growth", "work", "owners"]) {
            log.iter().for_each(|turn| eprintln!("{name} {:?}: {}", turn.by, turn.text));
            let by: Vec<Speaker> = log.iter().map(|turn| turn.by).collect();
            assert_eq!(by, [Speaker::Critic, Speaker::Maker, Speaker::Critic, Speaker::Maker]);
            assert!(log.iter().all(|turn| !turn.text.is_empty()));
            assert_eq!(log[0], debate.growth[0]);
            let answered = log.windows(2).all(|turns| turns[0].text != turns[1].text);
            assert!(answered, "a speaker only repeated the previous message");
        }
        let metrics = debate.scores.iter().flat_map(Scores::all).map(u32::from);
        assert!(metrics.clone().all(|it| (1..=10).contains(&it)));
        assert_eq!(metrics.clone().count(), 12);
        let (calls, usage) = counted.sum();
        eprintln!(
            "{}: {} of 120 in {took:?}; {calls} calls, {usage:?}",
            model.id(),
            metrics.sum::<u32>()
        );
        // One attack, three defences, three attacks, three defences and three scores. No call was repeated.
        assert_eq!(calls, 1 + 3 + 3 + 3 + 3);
        assert_eq!(budget.spent().tokens, usage.input + usage.output);
        // Each conversation extends the previous one, so most of the input is cached.
        let remembers = model.id().provider == LocalModel::PROVIDER;
        assert!(!remembers || 2 * usage.cached > usage.input, "{usage:?}");
    }
}

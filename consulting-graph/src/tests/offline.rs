//! Tests of the offline board, which call it with the prompts and tasks of a run but without the pipeline graph.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use llm::{Llm, Model, Request, overflow::Round};

use super::sample::date;
use crate::{
    citation::CitationChecker,
    config::{Config, DEFAULT, Metric, Persona},
    data::{Company, Subject, Ticker, edgar, folder, render, synthetic},
    fence::Fence,
    finding::{self, Findings, Inference},
    moves::{self, Author, Move, Risk},
    offline::{self, DebatedMove, Task, Work},
    prompt::{self, Brief},
    score::{MakerScore, ScoreSource},
    sentence::sentences,
    transcript::{ConversationEntry, Speaker, append_to_log, rounds, whole},
    watch::{ObservationKind, observe},
};

/// Model, configuration and company data for calling the offline board without the pipeline graph.
struct Study {
    llm: Llm,
    config: Config,
    fence: Fence,
    company: Company,
}

/// Results of the layers before the debates.
struct Layers {
    documents: Vec<String>,
    findings: Vec<Findings>,
    moves: Vec<Move>,
    /// Number of analysts that were asked a second time.
    retries: usize,
}

fn invented(ticker: &str) -> Company {
    synthetic::company(&Ticker::parse(ticker).unwrap(), date(2026, 3, 1))
}

impl Study {
    fn new(seed: u64, nonce: &str, company: Company) -> Self {
        let config = Config::parse(DEFAULT).unwrap();
        Self { llm: offline::model(seed), config, fence: Fence::new(nonce), company }
    }

    async fn ask(&self, agent: &Persona, request: Request, work: Work) -> String {
        let request = request.max_tokens(8192).attach(Task { agent: agent.clone(), work });
        self.llm.generate(request).await.unwrap().text()
    }

    async fn document(&self, subject: Subject) -> String {
        let (persona, data) = match subject {
            Subject::Financial => {
                (&self.config.synthesizers.financial, render::financial(&self.company))
            }
            Subject::Trend => (&self.config.synthesizers.news, render::news(&self.company)),
        };
        let ticker = &self.company.ticker;
        let request = prompt::synthesizer(persona, ticker, subject, &data, &self.fence);
        self.ask(persona, request, Work::Document { subject, data }).await
    }

    async fn infer(&self, inference: Inference, document: &str) -> Findings {
        let persona = match inference {
            Inference::F1 => &self.config.inferences.f1,
            Inference::F2 => &self.config.inferences.f2,
        };
        let ticker = &self.company.ticker;
        let request = prompt::inference(persona, ticker, inference, document, None, &self.fence);
        let (company, text) = (Arc::new(self.company.clone()), document.to_owned());
        let work = Work::Findings { inference, company, text };
        let draft = finding::read(&self.ask(persona, request, work).await);
        let problems = finding::violations(&draft, document);
        assert!(problems.is_empty(), "{ticker} {inference}: {problems:?}");
        Findings::from_draft(inference, ticker.clone(), draft)
    }

    /// Returns the moves that one analyst proposes, and whether a second answer was needed.
    async fn propose(&self, number: u16, findings: &[Findings]) -> (Vec<Move>, bool) {
        let persona = &self.config.analysts[usize::from(number) - 1];
        let ticker = &self.company.ticker;
        let [f1, f2] = [0, 1].map(|it: usize| findings[it].markdown());
        let work = Work::Moves { findings: findings.to_vec() };
        let first = prompt::analyst(persona, ticker, 3, &f1, &f2, &self.fence);
        let mut answer = self.ask(persona, first.clone(), work.clone()).await;
        let problems = moves::violations(&moves::read(&answer), findings);
        let needs_retry = problems.iter().any(moves::MoveViolation::requires_retry);
        if needs_retry {
            let retry = prompt::analyst_retry(&first, &answer, &problems);
            answer = self.ask(persona, retry, work).await;
        }
        let drafts = moves::read(&answer);
        assert_eq!(moves::violations(&drafts, findings), [], "{ticker}, {}", persona.id);
        let author = Author { number, agent_id: &persona.id, persona: &persona.name };
        (moves::assign_ids(author, ticker, 3, drafts).0, needs_retry)
    }

    async fn layers(&self) -> Layers {
        let documents =
            vec![self.document(Subject::Financial).await, self.document(Subject::Trend).await];
        let findings = vec![
            self.infer(Inference::F1, &documents[0]).await,
            self.infer(Inference::F2, &documents[1]).await,
        ];
        let (mut moves, mut retries) = (Vec::new(), 0);
        for number in 1..=5 {
            let (proposed, asked_again) = self.propose(number, &findings).await;
            moves.extend(proposed);
            retries += usize::from(asked_again);
        }
        Layers { documents, findings, moves, retries }
    }

    async fn opening(&self, subject: &DebateSubject) -> String {
        let critic = &self.config.critic;
        let request = prompt::critic_opening(critic, &subject.brief, &self.fence);
        let debated = subject.debated.clone();
        self.ask(critic, request, Work::CriticTurn { debated, maker: None, round: 1 }).await
    }

    /// Runs ten rounds between the critic and one decision maker.
    async fn debate(
        &self,
        maker: &Persona,
        subject: &DebateSubject,
        opening: &str,
    ) -> Vec<ConversationEntry> {
        let (critic, fence, brief) = (&self.config.critic, &self.fence, &subject.brief);
        let mut log = append_to_log(&[], Speaker::Critic, opening, 1);
        for round in 1..=10 {
            let debated = subject.debated.clone();
            if round > 1 {
                let log_rounds = rounds(&log);
                let request =
                    prompt::critic_reply(critic, brief, fence, maker, &whole(&log_rounds), round);
                let (debated, maker) = (debated.clone(), Some(maker.id.clone()));
                let work = Work::CriticTurn { debated, maker, round };
                let turn = self.ask(critic, request, work).await;
                log = append_to_log(&log, Speaker::Critic, &turn, round);
            }
            let log_rounds = rounds(&log);
            let request = prompt::maker_reply(maker, brief, fence, &whole(&log_rounds), round);
            let speaker = Speaker::DecisionMaker(maker.id.clone());
            let turn = self.ask(maker, request, Work::MakerTurn { debated, round }).await;
            log = append_to_log(&log, speaker, &turn, round);
        }
        log
    }

    /// Returns the scores as the program reads them: parsed, repaired or neutral.
    async fn score(&self, maker: &Persona, subject: &DebateSubject, log: &[Round]) -> MakerScore {
        let metrics = &self.config.metrics;
        let first = prompt::score(maker, &subject.brief, &self.fence, &whole(log), metrics, 10);
        let work = scores(subject, metrics, 10);
        let answer = self.ask(maker, first.clone(), work.clone()).await;
        let ids = self.config.metric_ids();
        if let Some(score) = MakerScore::parse(&answer, &ids) {
            return score;
        }
        let repaired = self.ask(maker, prompt::repair(&first, &answer, metrics), work).await;
        MakerScore::repaired(&repaired, &ids).unwrap_or_else(|| MakerScore::neutral(&ids))
    }
}

/// A debated move, in the forms that prompts and tasks need.
struct DebateSubject {
    brief: Brief,
    debated: Arc<DebatedMove>,
}

impl DebateSubject {
    fn new(the_move: &Move, findings: &[Findings]) -> Self {
        let debated = Arc::new(DebatedMove::new(the_move, findings));
        Self { brief: Brief::new(the_move, findings), debated }
    }
}

fn scores(subject: &DebateSubject, metrics: &[Metric], round: u32) -> Work {
    Work::Scores { debated: subject.debated.clone(), metrics: metrics.to_vec(), round }
}

#[tokio::test]
async fn calls_without_a_task_fail() {
    let llm = offline::model(0);
    assert_eq!(llm.id().to_string(), format!("scripted/{}", offline::MODEL_NAME));
    let error = llm.generate("What is the weather like?").await.unwrap_err();
    assert!(error.message.contains("configure a provider"), "{error}");
}

#[tokio::test]
async fn documents_keep_all_lines_and_add_no_numbers() {
    let study = Study::new(1, "7f3a", invented("NVDA"));
    for (subject, data) in [
        (Subject::Financial, render::financial(&study.company)),
        (Subject::Trend, render::news(&study.company)),
    ] {
        let document = study.document(subject).await;
        let lines: BTreeSet<&str> = document.lines().collect();
        assert!(data.lines().all(|it| lines.contains(it)), "{document}");
        let data_lines: BTreeSet<&str> = data.lines().collect();
        let added: Vec<&str> = document.lines().filter(|it| !data_lines.contains(it)).collect();
        assert_eq!(added.len(), 1, "{added:?}");
        assert!(added[0].contains("scripted model"), "{added:?}");
        assert!(!added[0].contains(|it: char| it.is_ascii_digit()), "{added:?}");
        let note = document.lines().position(|it| it.contains("SYNTHETIC DATA"));
        assert!(note < document.lines().position(|it| it == added[0]), "{document}");
    }
}

#[tokio::test]
async fn findings_and_moves_are_valid_for_many_companies() {
    let (mut retries, mut kinds) = (0, BTreeSet::new());
    for idx in 0..8_u8 {
        let company = invented(&format!("T{}", char::from(b'A' + idx)));
        let study = Study::new(u64::from(idx), "7f3a", company);
        let layers = study.layers().await;
        assert!(layers.findings.iter().all(|it| (10..=14).contains(&it.findings.len())));
        assert!(layers.findings.iter().all(|it| !it.tensions.is_empty()));
        kinds.extend(layers.findings[0].findings.iter().map(|it| format!("{:?}", it.draft.kind)));
        assert_eq!(layers.moves.len(), 15);
        let risks = |risk| layers.moves.iter().filter(|it| it.draft.risk_level == risk).count();
        assert_eq!([Risk::Low, Risk::Medium, Risk::High].map(risks), [5, 5, 5]);
        let evidence = CitationChecker::new(
            &layers.findings,
            &layers.documents.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        for it in &layers.moves {
            assert_eq!(evidence.check_move(it), [], "{}", it.markdown());
            assert!(it.draft.reasoning.len() >= 3 && it.draft.cited_findings().len() >= 3);
        }
        let titles: BTreeSet<&String> = layers.moves.iter().map(|it| &it.draft.title).collect();
        assert_eq!(titles.len(), 15, "{titles:?}");
        retries += layers.retries;
    }
    assert!((1..=14).contains(&retries), "{retries} of 40 analysts were asked again");
    assert!(kinds.len() >= 7, "{kinds:?}");
}

#[tokio::test]
async fn companies_without_news_get_moves() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/consulting");
    let ticker = |it| Ticker::parse(it).unwrap();
    let as_of = date(2026, 6, 1);
    for company in [
        edgar::read(&fixtures.join("edgar"), &ticker("EXMP"), as_of).unwrap(),
        folder::read(&fixtures.join("folder"), &ticker("CORNER"), as_of).unwrap(),
    ] {
        let layers = Study::new(3, "7f3a", company).layers().await;
        assert_eq!(layers.moves.len(), 15);
    }
}

#[tokio::test]
async fn debates_do_not_repeat_themselves_and_scores_vary() {
    let study = Study::new(1, "7f3a", invented("NVDA"));
    let layers = study.layers().await;
    let documents: Vec<&str> = layers.documents.iter().map(String::as_str).collect();
    let evidence = CitationChecker::new(&layers.findings, &documents);
    let (mut flags, mut turns, mut repeated, mut scores) = (0, 0, 0, BTreeMap::new());
    for the_move in [&layers.moves[2], &layers.moves[6]] {
        let subject = DebateSubject::new(the_move, &layers.findings);
        let opening = study.opening(&subject).await;
        for maker in &study.config.decision_makers {
            let log = study.debate(maker, &subject, &opening).await;
            let distinct_turns: BTreeSet<&str> = log.iter().map(|it| it.content.as_str()).collect();
            assert!(distinct_turns.len() >= 19, "turns repeat: {log:#?}");
            assert!(log.iter().any(|it| it.content.contains(&the_move.draft.title)), "{log:#?}");
            let cites =
                log.iter().filter(|it| !finding::find_citations(&it.content).is_empty()).count();
            assert!(cites >= 12, "{cites} of 20 turns cite a finding: {log:#?}");
            assert!(log.iter().all(|it| !it.content.contains("untrusted")), "{log:#?}");
            flags += evidence.check_log(the_move, "i1", &log).len();
            turns += log.len();
            let seen = observe(the_move.move_id, "i1", &log);
            repeated += seen.iter().filter(|it| it.kind == ObservationKind::Repetition).count();
            let score = study.score(maker, &subject, &rounds(&log)).await;
            assert_ne!(score.score_source, ScoreSource::Default, "all scores are readable");
            scores.insert((the_move.move_id, maker.id.clone()), score);
        }
    }
    assert!(flags <= turns / 10, "{flags} flags in {turns} turns");
    assert!(repeated <= turns / 10, "{repeated} repetitions in {turns} turns");
    let distinct: BTreeSet<&BTreeMap<String, u8>> = scores.values().map(|it| &it.metrics).collect();
    assert!(distinct.len() >= 5, "{distinct:?}");
    assert!(distinct.iter().flat_map(|it| it.values()).all(|it| (2..=10).contains(it)));
}

#[tokio::test]
async fn concessions_in_a_debate_change_the_scores() {
    let study = Study::new(3, "7f3a", invented("NVDA"));
    let layers = study.layers().await;
    let maker = &study.config.decision_makers[1];
    let mut compared = 0;
    for the_move in &layers.moves {
        let subject = DebateSubject::new(the_move, &layers.findings);
        let score_after = async |critic: &str, own: &str| {
            let log = append_to_log(&[], Speaker::Critic, critic, 1);
            let log = append_to_log(&log, Speaker::DecisionMaker(maker.id.clone()), own, 1);
            study.score(maker, &subject, &rounds(&log)).await
        };
        let same = score_after("No.", "Yes.").await;
        if same.score_source != ScoreSource::Schema || !same.adjustments.is_empty() {
            continue;
        }
        compared += 1;
        let lower = score_after("No.", "I concede your point.").await;
        let higher = score_after("You are right about that.", "Yes.").await;
        let metrics = study.config.metrics.len() as u32;
        assert_eq!(lower.total() + metrics, same.total(), "{lower:?}");
        assert_eq!(higher.total(), same.total() + metrics, "{higher:?}");
    }
    assert!(compared > 5, "{compared}");
}

#[tokio::test]
async fn decision_makers_change_their_position_because_of_findings_that_the_critic_cited() {
    let study = Study::new(4, "7f3a", invented("NVDA"));
    let layers = study.layers().await;
    let mut changes = 0;
    for the_move in &layers.moves {
        let subject = DebateSubject::new(the_move, &layers.findings);
        let opening = study.opening(&subject).await;
        let log = study.debate(&study.config.decision_makers[0], &subject, &opening).await;
        for turns in log.chunks(2) {
            let [critic, maker] = turns else { panic!("a round has two turns: {turns:?}") };
            let is_change = |it: &&str| {
                ["you changed my mind", "I no longer support"]
                    .iter()
                    .any(|words| it.contains(words))
            };
            for sentence in sentences(&maker.content).into_iter().filter(is_change) {
                changes += 1;
                let cited = finding::find_citations(sentence).into_iter().find_map(|it| it.1.ok());
                let cited = cited.unwrap_or_else(|| panic!("{sentence} cites nothing"));
                assert!(critic.content.contains(&cited.to_string()), "{critic:?} {maker:?}");
            }
        }
    }
    assert!(changes > 0, "no decision maker changed a position");
}

/// Sends the same scoring request to boards with different seeds and counts the formats of the answers.
#[tokio::test]
async fn some_scores_deviate_from_the_requested_format() {
    let mut study = Study::new(1, "7f3a", invented("NVDA"));
    let layers = study.layers().await;
    let subject = DebateSubject::new(&layers.moves[0], &layers.findings);
    let maker = study.config.decision_makers[0].clone();
    let mut sources: BTreeMap<String, u32> = BTreeMap::new();
    let mut adjusted = 0;
    for seed in 0..300 {
        study.llm = offline::model(seed);
        let score = study.score(&maker, &subject, &[]).await;
        adjusted += u32::from(!score.adjustments.is_empty());
        *sources.entry(format!("{:?}", score.score_source)).or_default() += 1;
    }
    for source in ["Schema", "Json", "JsonExtracted", "Regex", "Repaired"] {
        assert!(sources.contains_key(source), "{source} is missing: {sources:?}");
    }
    assert!(adjusted > 0, "{sources:?}");
    let other = 300 - sources["Schema"];
    assert!((6..=45).contains(&other), "{other} of 300 in another form: {sources:?}");
}

#[tokio::test]
async fn answers_depend_on_the_seed_but_not_on_the_nonce() {
    let run_with = async |seed, nonce| {
        let study = Study::new(seed, nonce, invented("ACME"));
        let layers = study.layers().await;
        let subject = DebateSubject::new(&layers.moves[4], &layers.findings);
        let opening = study.opening(&subject).await;
        let log = study.debate(&study.config.decision_makers[1], &subject, &opening).await;
        let score = study.score(&study.config.decision_makers[1], &subject, &rounds(&log)).await;
        (layers.moves, log, score)
    };
    let first = run_with(5, "7f3a").await;
    assert_eq!(first, run_with(5, "0b1e77").await);
    assert_ne!(first, run_with(6, "7f3a").await);
}

#[tokio::test]
async fn decision_makers_use_distinct_phrases() {
    let study = Study::new(2, "7f3a", invented("NVDA"));
    let layers = study.layers().await;
    let subject = DebateSubject::new(&layers.moves[0], &layers.findings);
    let opening = study.opening(&subject).await;
    let mut known: BTreeSet<String> = BTreeSet::new();
    for maker in &study.config.decision_makers {
        let log = study.debate(maker, &subject, &opening).await;
        let own = log.iter().filter(|it| it.role != Speaker::Critic);
        let last_words: BTreeSet<String> = own
            .filter_map(|it| it.content.rsplit(". ").next().map(str::to_owned))
            .filter(|it| {
                !it.contains("satisfy") && !it.contains("stay with") && !it.contains("trial")
            })
            .collect();
        assert!(last_words.is_disjoint(&known), "{last_words:?}");
        known.extend(last_words);
    }
}

/// Metrics other than the default ones are scored too.
#[tokio::test]
async fn custom_metrics_are_scored() {
    let study = Study::new(1, "7f3a", invented("NVDA"));
    let maker = &study.config.decision_makers[0];
    let subject = DebateSubject::new(&super::sample::the_move(), &[]);
    let mut metrics = study.config.metrics.clone();
    metrics[0].id = "courage".to_owned();
    let ids: Vec<&str> = metrics.iter().map(|it| it.id.as_str()).collect();
    let request = prompt::baseline(maker, &subject.brief, &study.fence, &metrics);
    let answer = study.ask(maker, request, scores(&subject, &metrics, 0)).await;
    assert!(MakerScore::parse(&answer, &ids).is_some(), "{answer}");
}

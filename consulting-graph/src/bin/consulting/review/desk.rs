//! The moves on the table: dropping, editing and adding them.

use consulting_graph::{
    data::Ticker,
    fence::visible,
    moves::{self, Move, MoveDraft, MoveId, Risk},
};

use crate::view::text::{cut, first_line};

/// Whose the moves are that a person adds.
const REVIEWER: (&str, &str) = ("reviewer", "Reviewer");

/// The moves that are to be debated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Desk {
    ticker: Ticker,
    moves: Vec<Move>,
    /// The highest number that was given: a dropped move's number is never another's.
    last: u16,
}

impl Desk {
    pub(super) fn of(ticker: Ticker, moves: Vec<Move>) -> Self {
        let last = moves.iter().map(|it| it.move_id.0).max().unwrap_or(0);
        Self { ticker, moves, last }
    }

    pub(super) fn into_moves(self) -> Vec<Move> {
        self.moves
    }

    pub(super) fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// A move as markdown, to be shown or edited.
    pub(super) fn markdown(&self, id: MoveId) -> Result<String, String> {
        let found = self.moves.iter().find(|it| it.move_id == id);
        found.map(|it| visible(&it.markdown())).ok_or_else(|| missing(id))
    }

    pub(super) fn drop(&mut self, id: MoveId) -> Result<String, String> {
        let idx = self.moves.iter().position(|it| it.move_id == id).ok_or_else(|| missing(id))?;
        let dropped = self.moves.remove(idx);
        Ok(format!("{id} is left out: {}", first_line(&dropped.draft.title)))
    }

    /// Puts what was edited in a move's place. It stays the analyst's, under its number.
    pub(super) fn edit(&mut self, id: MoveId, text: &str) -> Result<String, String> {
        let draft = match <[MoveDraft; 1]>::try_from(drafts(text)?) {
            Ok([draft]) => draft,
            Err(several) => {
                return Err(format!("{id} became {} moves; use `add` for more", several.len()));
            }
        };
        let found = self.moves.iter_mut().find(|it| it.move_id == id).ok_or_else(|| missing(id))?;
        let is_same = found.draft == draft;
        found.draft = draft;
        Ok(if is_same { format!("{id} is as it was") } else { format!("{id} is changed") })
    }

    /// Adds moves, under numbers of their own.
    pub(super) fn add(&mut self, text: &str) -> Result<String, String> {
        let mut added = Vec::new();
        for draft in drafts(text)? {
            self.last = self.last.checked_add(1).ok_or("there are too many moves")?;
            let (agent_id, persona) = (REVIEWER.0.to_owned(), REVIEWER.1.to_owned());
            let (move_id, ticker) = (MoveId(self.last), self.ticker.clone());
            added.push(move_id.to_string());
            self.moves.push(Move { move_id, agent_id, persona, ticker, draft });
        }
        Ok(format!("added as {}", added.join(", ")))
    }

    /// The moves, each in two lines.
    pub(super) fn list(&self, columns: usize) -> String {
        let entry = |it: &Move| {
            let risk = match it.draft.risk_level {
                Risk::Low => "low",
                Risk::Medium => "medium",
                Risk::High => "high",
            };
            let head = format!(
                "{:>4}  {risk:<6}  {}",
                it.move_id.to_string(),
                first_line(&it.draft.title)
            );
            let thesis = format!("              {}", first_line(&it.draft.thesis));
            format!("{}\n{}\n", cut(&head, columns), cut(&thesis, columns))
        };
        self.moves.iter().map(entry).collect()
    }
}

/// The moves in a text, markdown or JSON.
fn drafts(text: &str) -> Result<Vec<MoveDraft>, String> {
    let drafts = moves::read(text);
    match drafts.iter().find(|it| it.title.trim().is_empty() || it.thesis.trim().is_empty()) {
        Some(_) => Err("a move needs a title and a thesis".to_owned()),
        None if drafts.is_empty() => {
            Err("no move can be read from it; write it like `show` shows one".to_owned())
        }
        None => Ok(drafts),
    }
}

fn missing(id: MoveId) -> String {
    format!("there is no {id}; `list` shows the moves")
}

#[cfg(test)]
mod tests {
    use consulting_graph::{moves::Step, pipeline::Reviewed};

    use super::{Desk, Move, MoveDraft, MoveId, Risk, Ticker};

    fn desk() -> Desk {
        let ticker = Ticker::parse("NVDA").unwrap();
        let draft = |title: &str| MoveDraft {
            title: title.to_owned(),
            risk_level: Risk::High,
            thesis: "It pays twice.".to_owned(),
            why_now: "Rates fall.".to_owned(),
            reasoning: ["One [F1-01].", "Two [F2-02].", "Three."].map(str::to_owned).into(),
            citations: ["F1-01", "F2-02"].map(str::to_owned).into(),
            steps: vec![Step {
                action: "Call the bank".to_owned(),
                owner: "CFO".to_owned(),
                timeframe: "Q2".to_owned(),
            }],
            cost: "$3 million".to_owned(),
            downside: "It fails.".to_owned(),
            mitigation: "Stop early.".to_owned(),
            falsifiers: vec!["No buyer by June".to_owned()],
            kpi: "Margin".to_owned(),
        };
        let the_move = |number: u16, title: &str| Move {
            move_id: MoveId(number),
            agent_id: "analyst_1".to_owned(),
            persona: "Capital steward".to_owned(),
            ticker: ticker.clone(),
            draft: draft(title),
        };
        Desk::of(ticker.clone(), vec![the_move(1, "Sell the plant"), the_move(2, "Buy the rival")])
    }

    #[test]
    fn a_move_that_is_saved_unchanged_stays_to_the_letter() {
        let mut desk = desk();
        let text = desk.markdown(MoveId(2)).unwrap();
        assert_eq!(desk.edit(MoveId(2), &text), Ok("m2 is as it was".to_owned()));
        assert_eq!(desk, self::desk());
    }

    #[test]
    fn an_edited_move_keeps_its_number_and_its_author() {
        let mut desk = desk();
        let text = desk.markdown(MoveId(2)).unwrap().replace("Buy the rival", "Rent the rival");
        assert_eq!(desk.edit(MoveId(2), &text), Ok("m2 is changed".to_owned()));
        let moves = desk.into_moves();
        assert_eq!(moves[1].draft.title, "Rent the rival");
        assert_eq!((moves[1].move_id, moves[1].agent_id.as_str()), (MoveId(2), "analyst_1"));
    }

    #[test]
    fn numbers_are_never_given_twice() {
        let mut desk = desk();
        let text = desk.markdown(MoveId(1)).unwrap();
        assert!(desk.drop(MoveId(2)).unwrap().contains("Buy the rival"));
        assert_eq!(desk.add(&text), Ok("added as m3".to_owned()));
        let moves = desk.into_moves();
        let ids: Vec<u16> = moves.iter().map(|it| it.move_id.0).collect();
        assert_eq!(ids, [1, 3]);
        assert_eq!(moves[1].agent_id, "reviewer");
    }

    #[test]
    fn what_cannot_be_done_changes_nothing() {
        let mut desk = desk();
        assert!(desk.drop(MoveId(9)).is_err());
        assert!(desk.edit(MoveId(1), "nothing of a move").is_err());
        assert!(desk.edit(MoveId(9), &self::desk().markdown(MoveId(1)).unwrap()).is_err());
        assert!(desk.add("").is_err());
        assert_eq!(desk, self::desk());
    }

    #[test]
    fn a_file_with_one_number_twice_or_without_moves_is_refused() {
        let moves = desk().into_moves();
        let check = |moves: &[Move]| Reviewed { moves: moves.to_vec() }.check();
        assert_eq!(check(&moves), Ok(()));
        assert!(check(&[moves[0].clone(), moves[0].clone()]).unwrap_err().contains("m1"));
        assert!(check(&[]).is_err());
    }

    #[test]
    fn the_list_fits_and_says_what_matters() {
        let list = desk().list(30);
        assert_eq!(list.lines().next(), Some("  m1  high    Sell the plant"));
        assert!(list.lines().all(|it| it.chars().count() <= 30), "{list}");
    }
}

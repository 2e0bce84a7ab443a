//! Drops, edits and adds moves during a review.

use app_support::terminal::strip_invisible;
use consulting_graph::{
    data::Ticker,
    moves::{self, Move, MoveDraft, MoveId},
};

use crate::view::text::{first_line, truncate};

/// Author id and name of moves that the reviewer adds.
const REVIEWER: (&str, &str) = ("reviewer", "Reviewer");

/// The moves under review.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MoveEditor {
    ticker: Ticker,
    moves: Vec<Move>,
    /// Highest move number so far. Numbers of dropped moves are not reused.
    last_number: u16,
}

impl MoveEditor {
    pub(super) fn new(ticker: Ticker, moves: Vec<Move>) -> Self {
        let last_number = moves.iter().map(|it| it.move_id.0).max().unwrap_or(0);
        Self { ticker, moves, last_number }
    }

    pub(super) fn into_moves(self) -> Vec<Move> {
        self.moves
    }

    pub(super) fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// Returns a move as Markdown, for showing or editing.
    pub(super) fn markdown(&self, id: MoveId) -> Result<String, String> {
        let existing = self.moves.iter().find(|it| it.move_id == id);
        existing.map(|it| strip_invisible(&it.markdown())).ok_or_else(|| unknown_move(id))
    }

    pub(super) fn drop(&mut self, id: MoveId) -> Result<String, String> {
        let idx =
            self.moves.iter().position(|it| it.move_id == id).ok_or_else(|| unknown_move(id))?;
        let dropped = self.moves.remove(idx);
        Ok(format!("dropped {id}: {}", first_line(&dropped.draft.title)))
    }

    /// Replaces a move with an edited version. Its number and author stay the same.
    pub(super) fn edit(&mut self, id: MoveId, text: &str) -> Result<String, String> {
        let draft = match <[MoveDraft; 1]>::try_from(drafts(text)?) {
            Ok([draft]) => draft,
            Err(several) => {
                return Err(format!(
                    "the edited text of {id} contains {} moves; use `add` for new moves",
                    several.len()
                ));
            }
        };
        let existing =
            self.moves.iter_mut().find(|it| it.move_id == id).ok_or_else(|| unknown_move(id))?;
        let is_unchanged = existing.draft == draft;
        existing.draft = draft;
        Ok(if is_unchanged { format!("{id} is unchanged") } else { format!("{id} was changed") })
    }

    /// Adds moves with new numbers.
    pub(super) fn add(&mut self, text: &str) -> Result<String, String> {
        let mut added = Vec::new();
        for draft in drafts(text)? {
            self.last_number = self.last_number.checked_add(1).ok_or("too many moves")?;
            let (agent_id, persona) = (REVIEWER.0.to_owned(), REVIEWER.1.to_owned());
            let (move_id, ticker) = (MoveId(self.last_number), self.ticker.clone());
            added.push(move_id.to_string());
            self.moves.push(Move { move_id, agent_id, persona, ticker, draft });
        }
        Ok(format!("added as {}", added.join(", ")))
    }

    /// Lists the moves, two lines each.
    pub(super) fn list(&self, columns: usize) -> String {
        let entry = |it: &Move| {
            let risk = it.draft.risk_level.name();
            let head = format!(
                "{:>4}  {risk:<6}  {}",
                it.move_id.to_string(),
                first_line(&it.draft.title)
            );
            let thesis = format!("              {}", first_line(&it.draft.thesis));
            format!("{}\n{}\n", truncate(&head, columns), truncate(&thesis, columns))
        };
        self.moves.iter().map(entry).collect()
    }
}

/// Parses the moves in a Markdown or JSON text.
fn drafts(text: &str) -> Result<Vec<MoveDraft>, String> {
    let drafts = moves::read(text);
    match drafts.iter().find(|it| it.title.trim().is_empty() || it.thesis.trim().is_empty()) {
        Some(_) => Err("every move needs a title and a thesis".to_owned()),
        None if drafts.is_empty() => {
            Err("the text contains no readable move; use the format that `show` prints".to_owned())
        }
        None => Ok(drafts),
    }
}

fn unknown_move(id: MoveId) -> String {
    format!("there is no move {id}; `list` shows all moves")
}

#[cfg(test)]
mod tests {
    use consulting_graph::moves::{Risk, Step};

    use super::{Move, MoveDraft, MoveEditor, MoveId, Ticker};

    fn editor() -> MoveEditor {
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
        MoveEditor::new(
            ticker.clone(),
            vec![the_move(1, "Sell the plant"), the_move(2, "Buy the rival")],
        )
    }

    #[test]
    fn saving_a_move_without_edits_changes_nothing() {
        let mut editor = editor();
        let text = editor.markdown(MoveId(2)).unwrap();
        assert_eq!(editor.edit(MoveId(2), &text), Ok("m2 is unchanged".to_owned()));
        assert_eq!(editor, self::editor());
    }

    #[test]
    fn edited_moves_keep_their_number_and_author() {
        let mut editor = editor();
        let text = editor.markdown(MoveId(2)).unwrap().replace("Buy the rival", "Rent the rival");
        assert_eq!(editor.edit(MoveId(2), &text), Ok("m2 was changed".to_owned()));
        let moves = editor.into_moves();
        assert_eq!(moves[1].draft.title, "Rent the rival");
        assert_eq!((moves[1].move_id, moves[1].agent_id.as_str()), (MoveId(2), "analyst_1"));
    }

    #[test]
    fn move_numbers_are_never_reused() {
        let mut editor = editor();
        let text = editor.markdown(MoveId(1)).unwrap();
        assert!(editor.drop(MoveId(2)).unwrap().contains("Buy the rival"));
        assert_eq!(editor.add(&text), Ok("added as m3".to_owned()));
        let moves = editor.into_moves();
        let ids: Vec<u16> = moves.iter().map(|it| it.move_id.0).collect();
        assert_eq!(ids, [1, 3]);
        assert_eq!(moves[1].agent_id, "reviewer");
    }

    #[test]
    fn failed_commands_change_nothing() {
        let mut editor = editor();
        assert!(editor.drop(MoveId(9)).is_err());
        assert!(editor.edit(MoveId(1), "not a move").is_err());
        assert!(editor.edit(MoveId(9), &self::editor().markdown(MoveId(1)).unwrap()).is_err());
        assert!(editor.add("").is_err());
        assert_eq!(editor, self::editor());
    }

    #[test]
    fn the_list_fits_the_terminal_width() {
        let list = editor().list(30);
        assert_eq!(list.lines().next(), Some("  m1  high    Sell the plant"));
        assert!(list.lines().all(|it| it.chars().count() <= 30), "{list}");
    }
}

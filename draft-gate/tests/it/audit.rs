//! The log shows every change of it.

use std::fs;

use draft_gate::{Error, Gate};

use crate::support::{OLD, Place, with_line};

fn log(place: &Place) -> std::path::PathBuf {
    place.path("_handoff/transition.ndjson")
}

#[test]
fn any_byte_that_is_changed_added_or_removed_is_found() {
    let place = Place::new();
    place.edit("src/a.py", &with_line(OLD));
    place.propose_deletion("src/a.py");
    let whole = fs::read(log(&place)).unwrap();
    let lines = place.gate.verify().unwrap().lines;
    assert_eq!(lines as usize, whole.split(|it| *it == b'\n').count() - 1);
    let check = |bytes: &[u8], what: &str| {
        fs::write(log(&place), bytes).unwrap();
        assert!(matches!(place.gate.verify(), Err(Error::Log { .. })), "{what}");
    };
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        check(&changed, &format!("byte {at} changed"));
        let removed = [&whole[..at], &whole[at + 1..]].concat();
        check(&removed, &format!("byte {at} removed"));
        check(&whole[..at], &format!("cut at {at}"));
    }
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for at in 0..lines.len() {
        let without: String =
            lines.iter().enumerate().filter(|it| it.0 != at).map(|it| *it.1).collect();
        check(without.as_bytes(), &format!("line {at} removed"));
        let twice: String = lines
            .iter()
            .enumerate()
            .flat_map(|it| vec![*it.1; if it.0 == at { 2 } else { 1 }])
            .collect();
        check(twice.as_bytes(), &format!("line {at} twice"));
    }
    check(&[&whole, b"\n".as_slice()].concat(), "an empty line");
    check(text.replace('\n', "\r\n").as_bytes(), "other line ends");
    fs::write(log(&place), whole).unwrap();
    place.gate.verify().unwrap();
}

/// Whoever knows how lines are bound can add one; the gate still knows which it wrote.
#[test]
fn a_line_that_is_bound_rightly_and_not_by_us_is_found() {
    let (place, other) = (Place::new(), Place::new());
    place.edit("src/a.py", &with_line(OLD));
    fs::copy(log(&place), log(&other)).unwrap();
    fs::copy(place.path("_handoff/gate/head.json"), other.path("_handoff/gate/head.json")).unwrap();
    other.propose_deletion("src/a.py");
    other.gate.verify().unwrap();
    fs::copy(log(&other), log(&place)).unwrap();
    assert!(matches!(place.gate.verify(), Err(Error::Log { .. })));
}

#[test]
fn nothing_is_accepted_over_a_log_that_was_cut_until_somebody_has_looked() {
    let place = Place::new();
    place.edit("src/a.py", &with_line(OLD));
    let whole = fs::read_to_string(log(&place)).unwrap();
    let cut: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(log(&place), cut).unwrap();
    let worker = place.gate.worker("w").unwrap();
    let request = draft_gate::Request::edit("src/a.py", "t");
    assert!(matches!(worker.request(&request), Err(Error::Log { .. })));
    let gate = Gate::open_to_look(place.path("")).unwrap();
    gate.acknowledge_loss("p").unwrap();
    gate.verify().unwrap();
    let last = gate.records().unwrap().pop().unwrap();
    assert_eq!(
        (last.event.as_str(), last.more["expected_line"].as_u64()),
        ("loss_acknowledged", Some(4))
    );
    assert!(worker.request(&request).is_ok());
}

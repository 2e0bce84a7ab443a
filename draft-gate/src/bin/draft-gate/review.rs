//! `draft-gate review`: shows what waits, and asks.

use std::{
    env, fs,
    io::{self, BufRead},
    process::Command,
};

use draft_gate::{Gate, Judgement, Waiting, visible};

use crate::{
    Problem,
    out::{say, say_line},
    paint::{Paint, print_judgement},
};

/// What a person says to a change set.
enum Answer {
    Accept,
    Reject(String),
    Amend(String),
    Skip,
    Quit,
}

pub(crate) fn review(gate: &Gate, start: &str, agent: &str) -> Result<(), Problem> {
    let waiting: Vec<Waiting> =
        gate.pending()?.into_iter().filter(|it| it.set.starts_with(start)).collect();
    if waiting.is_empty() {
        return say_line("nothing waits");
    }
    for waiting in waiting {
        let mut judgement = gate.look(&waiting.set)?;
        let Waiting { worker, task, summary, .. } = &waiting;
        say_line(format_args!("\n{worker} for task {task} says: {}", visible(summary)))?;
        print_judgement(&judgement, Paint::of_stdout())?;
        loop {
            match ask(&waiting)? {
                Answer::Accept => gate.accept(&waiting.set, judgement.sight, agent)?,
                Answer::Reject(reason) => {
                    gate.reject(&waiting.set, judgement.sight, &reason, agent)?
                }
                Answer::Amend(path) => {
                    judgement = amend(gate, &judgement, &path, agent)?;
                    print_judgement(&judgement, Paint::of_stdout())?;
                    continue;
                }
                Answer::Skip => {}
                Answer::Quit => return Ok(()),
            }
            break;
        }
    }
    Ok(())
}

fn ask(waiting: &Waiting) -> Result<Answer, Problem> {
    loop {
        match line("[a]ccept, [r]eject, a[m]end, [s]kip, [q]uit? ")?.as_str() {
            "a" | "accept" => return Ok(Answer::Accept),
            "r" | "reject" => return Ok(Answer::Reject(line("why? ")?)),
            "m" | "amend" => {
                let path = match waiting.paths.as_slice() {
                    [only] => only.to_string(),
                    _ => line("which file? ")?,
                };
                return Ok(Answer::Amend(path));
            }
            "s" | "skip" => return Ok(Answer::Skip),
            "q" | "quit" => return Ok(Answer::Quit),
            _ => {}
        }
    }
}

/// Opens the draft's text in the person's editor.
fn amend(
    gate: &Gate,
    judgement: &Judgement,
    path: &str,
    agent: &str,
) -> Result<Judgement, Problem> {
    let text = gate.proposed_text(&judgement.set, path)?;
    let folder = tempfile::tempdir()?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let file = folder.path().join(name);
    fs::write(&file, text)?;
    let editor =
        env::var("VISUAL").or_else(|_| env::var("EDITOR")).unwrap_or_else(|_| "vi".to_owned());
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(&file)
        .status()?;
    if !status.success() {
        return Err(format!("`{editor}` failed; nothing is changed").into());
    }
    let text = fs::read_to_string(&file)?;
    Ok(gate.amend(&judgement.set, path, &text, judgement.sight, agent)?)
}

fn line(question: &str) -> Result<String, Problem> {
    say(question)?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err("there is nobody to ask; use `draft-gate accept` or `draft-gate reject`".into());
    }
    Ok(line.trim().to_owned())
}

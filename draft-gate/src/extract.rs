//! The way before drafts: files out of a model's text. Kept for models without tools; its failures are counted.

/// A file that a text holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Extracted {
    /// Its path, as the text names it.
    pub path: String,
    /// Its content.
    pub content: String,
}

/// Takes fenced blocks with a name out of a text: on the fence's line, on the line before, or in a first comment.
pub fn extract(text: &str) -> Result<Vec<Extracted>, &'static str> {
    let mut files: Vec<Extracted> = vec![];
    let mut lines = text.lines().peekable();
    let mut before = "";
    while let Some(line) = lines.next() {
        let fence = line.trim_start().chars().take_while(|it| *it == '`').count();
        if fence < 3 {
            before = if line.trim().is_empty() { before } else { line };
            continue;
        }
        let is_end =
            |it: &str| it.trim().len() >= fence && it.trim().bytes().all(|byte| byte == b'`');
        let comment = lines.peek().copied().unwrap_or_default().trim_start();
        let marks = ["# ", "//", "/*", ";", "<!--", "--"];
        let comment = marks.iter().find_map(|it| comment.strip_prefix(it)).unwrap_or_default();
        let named = [line, before].into_iter().find_map(path_in);
        let named = named.map(|it| (it, false)).or_else(|| path_in(comment).map(|it| (it, true)));
        let (path, is_comment) = named.ok_or("a block has no file name")?;
        if is_comment {
            lines.next();
        }
        let mut content = String::new();
        while let Some(line) = lines.next_if(|it| !is_end(it)) {
            content.extend([line, "\n"]);
        }
        lines.next().ok_or("the last block has no end")?;
        // A model that shows a file twice means the last one.
        files.retain(|it| it.path != path);
        files.push(Extracted { path, content });
        before = "";
    }
    if files.is_empty() { Err("there is no fenced block") } else { Ok(files) }
}

/// The first word with a slash inside, or with an ending that starts with a letter, less what marks it up.
fn path_in(line: &str) -> Option<String> {
    let words = line.split([' ', '`', '*', '"', '\'', '(', ')', '=', ',']);
    let mut words = words.map(|it| it.trim_end_matches([':', '.']).trim());
    let is_path = |it: &&str| {
        let ending = it.rsplit_once('.').and_then(|(_, ending)| ending.chars().next());
        let is_file = ending.is_some_and(char::is_alphabetic) && !["e.g", "i.e"].contains(it);
        (is_file || it.chars().skip(1).any(|it| it == '/')) && !it.contains("://")
    };
    words.find(is_path).map(str::to_owned)
}

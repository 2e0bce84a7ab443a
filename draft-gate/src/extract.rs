//! Extracts files from a model's text, for models without tools.

/// A file found in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractedFile {
    /// Path of the file, as written in the text.
    pub path: String,
    pub content: String,
}

/// Extracts all fenced blocks. The file name of a block is taken from the line of the fence, the line before it, or a
/// comment on the block's first line. Fails if a block has no file name or is not closed.
///
/// ```
/// let answer = "Here is `hello.py`:\n```python\nprint('hello')\n```\n";
/// let files = draft_gate::extract(answer)?;
/// assert_eq!((&*files[0].path, &*files[0].content), ("hello.py", "print('hello')\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn extract(text: &str) -> Result<Vec<ExtractedFile>, &'static str> {
    let mut files: Vec<ExtractedFile> = vec![];
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
        let (path, is_comment) = named.ok_or("a fenced block has no file name")?;
        if is_comment {
            lines.next();
        }
        let mut content = String::new();
        while let Some(line) = lines.next_if(|it| !is_end(it)) {
            content.extend([line, "\n"]);
        }
        lines.next().ok_or("the last fenced block is not closed")?;
        let path = Some(path).filter(|_| files.len() < 200).ok_or("it has more than 200 files")?;
        // If a file appears twice, keep the last version.
        files.retain(|it| it.path != path);
        files.push(ExtractedFile { path, content });
        before = "";
    }
    if files.is_empty() { Err("there is no fenced block") } else { Ok(files) }
}

/// Returns the first word that looks like a path, without markup. Such a word contains a slash or has a file extension
/// that starts with a letter.
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

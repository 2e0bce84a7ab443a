//! Characters that are invisible or look like others, according to Unicode's tables.
//!
//! Invisible characters are those with the property Default_Ignorable_Code_Point and the general categories of
//! controls, formatting characters, separators and characters without an assigned meaning. Confusable words follow
//! Unicode Technical Standard 39: a word mixes scripts, contains a character that is not meant for identifiers, or is
//! written completely in another script, and its *skeleton* consists of ASCII characters.

use std::{cell::LazyCell, collections::HashSet};

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic, GeneralCategory,
    },
};
use unicode_normalization::char::decompose_canonical;
use unicode_security::{
    GeneralSecurityProfile, MixedScript, mixed_script::AugmentedScriptSet, skeleton,
};

/// Characters that are drawn as a blank although their Unicode properties do not say so: the Braille pattern without
/// dots, fillers and blanks of other scripts, a musical note without a head, and the object replacement character.
const BLANKS: [char; 6] =
    ['\u{2800}', '\u{fffc}', '\u{13441}', '\u{13442}', '\u{16fe4}', '\u{1d159}'];

/// Maximum number of combining marks on one character.
const MAX_MARKS: usize = 4;

/// Minimum length of a word that is confusable although other words of its line are written in the same script. Shorter
/// words that look like ASCII text are frequent in some languages, such as Russian.
const MIN_LOOKALIKE: usize = 3;

/// Returns whether a character is a control character (except tab), is invisible, or changes the text direction.
pub(crate) fn is_invisible(char: char) -> bool {
    if char.is_ascii() {
        return char != '\t' && char.is_control();
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(char);
    matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    ) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(char)
        || BLANKS.contains(&char)
}

/// Returns whether a line contains characters that a reader cannot see. Emoji may contain joiners and variation
/// selectors. If `is_prose` is true, allows the special spaces that occur in natural languages.
pub(crate) fn hides_characters(line: &str, is_prose: bool) -> bool {
    if line.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t') {
        return false;
    }
    let chars: Vec<char> = line.chars().collect();
    let is_hidden = |at: usize| {
        let char = chars[at];
        (is_invisible(char) && !is_part_of_emoji(&chars, at))
            || (is_special_space(char) && !(is_prose && is_space_of_prose(char)))
    };
    (0..chars.len()).any(is_hidden) || has_stacked_marks(&chars)
}

/// Returns whether a character is white space outside ASCII.
pub(crate) fn is_special_space(char: char) -> bool {
    !char.is_ascii() && char.is_whitespace()
}

/// Returns whether a special space is used in ordinary prose: no-break spaces and the ideographic space.
fn is_space_of_prose(char: char) -> bool {
    matches!(char, '\u{a0}' | '\u{202f}' | '\u{3000}')
}

/// Returns whether a joiner or a variation selector is a part of an emoji.
fn is_part_of_emoji(chars: &[char], at: usize) -> bool {
    let pictographic = CodePointSetData::new::<ExtendedPictographic>();
    let modifier = CodePointSetData::new::<EmojiModifier>();
    let next = chars.get(at + 1).copied();
    let Some(before) = at.checked_sub(1).map(|it| chars[it]) else { return false };
    match chars[at] {
        '\u{fe0e}' | '\u{fe0f}' if before.is_ascii() => next == Some('\u{20e3}'),
        '\u{fe0e}' | '\u{fe0f}' => CodePointSetData::new::<Emoji>().contains(before),
        '\u{200d}' => {
            let is_after_emoji = pictographic.contains(before)
                || modifier.contains(before)
                || (before == '\u{fe0f}' && at > 1 && is_part_of_emoji(chars, at - 1));
            is_after_emoji && next.is_some_and(|it| pictographic.contains(it))
        }
        _ => false,
    }
}

/// Returns whether more than [`MAX_MARKS`] combining marks follow each other.
fn has_stacked_marks(chars: &[char]) -> bool {
    chars
        .chunk_by(|one, next| is_mark(*one) == is_mark(*next))
        .any(|it| it.len() > MAX_MARKS && is_mark(it[0]))
}

fn is_mark(char: char) -> bool {
    !char.is_ascii()
        && matches!(
            CodePointMapData::<GeneralCategory>::new().get(char),
            GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
        )
}

/// Returns the first word that mixes scripts or contains a special character, so that it looks like ASCII text. A
/// combining mark of another script also counts, because fonts often do not render it.
pub(crate) fn confusable_word(text: &str) -> Option<&str> {
    words(text).find(|word| {
        let is_lookalike = |char: char| !char.is_ascii() && looks_like_ascii(char);
        let is_special =
            |it: char| is_letter_or_digit(it) && !it.identifier_allowed() && !is_emoji(it);
        word.chars().any(|it| is_lookalike(it) && is_special(it))
            || (!word.is_single_script() && word.chars().any(is_lookalike))
            || has_foreign_mark(word)
    })
}

/// Returns whether a combining mark follows a letter of a script in which the mark is not used.
fn has_foreign_mark(word: &str) -> bool {
    word.chars().zip(word.chars().skip(1)).any(|(base, mark)| {
        let mut common = AugmentedScriptSet::for_char(base);
        common.intersect_with(AugmentedScriptSet::for_char(mark));
        is_mark(mark) && common.is_empty()
    })
}

/// Returns the first word that is written in another script but whose characters all look like ASCII.
pub(crate) fn lookalike_word(text: &str) -> Option<&str> {
    // The scripts of the words that do not look like ASCII text, collected once for all words that are compared to
    // them.
    let prose = LazyCell::new(|| {
        let words = words(text).filter(|it| !it.chars().all(looks_like_ascii));
        words.map(AugmentedScriptSet::for_str).collect::<HashSet<_>>()
    });
    words(text).find(|word| {
        let scripts = AugmentedScriptSet::for_str(word);
        let is_foreign = |it: AugmentedScriptSet| {
            let mut latin = it;
            latin.intersect_with(AugmentedScriptSet::for_char('a'));
            latin.is_empty()
        };
        let is_shared = |other: &AugmentedScriptSet| {
            let mut common = *other;
            common.intersect_with(scripts);
            !common.is_empty() && !common.is_all()
        };
        is_foreign(scripts)
            && !scripts.is_empty()
            && word.chars().all(looks_like_ascii)
            && (word.chars().count() >= MIN_LOOKALIKE || !prose.iter().any(is_shared))
    })
}

/// Returns the first word whose letters all look like ASCII letters, in any script including Latin, such as `admın`
/// with a dotless i. Returns `None` if the text also has a word with letters that do not look like ASCII letters,
/// because the text is then probably in a language that uses such letters.
pub(crate) fn ascii_lookalike_word(text: &str) -> Option<&str> {
    let word = words(text).find(|it| it.chars().all(looks_like_ascii_letter))?;
    let is_prose = words(text).any(|it| !it.chars().all(looks_like_ascii));
    (!is_prose).then_some(word)
}

/// Returns the first character that Unicode defines to be the same as an ASCII character, so that it looks exactly like
/// it: the Greek question mark, which looks like a semicolon, the Greek varia and the Kelvin sign.
pub(crate) fn ascii_duplicate(text: &str) -> Option<&str> {
    let is_duplicate = |char: char| {
        let mut is_ascii = !char.is_ascii();
        decompose_canonical(char, |it| is_ascii &= it.is_ascii());
        is_ascii
    };
    let (at, char) = text.char_indices().find(|it| is_duplicate(it.1))?;
    Some(&text[at..at + char.len_utf8()])
}

/// Returns a text that is equal for names that differ only in letter case and, if `is_ascii` is false, for names that
/// look the same. Two ASCII names such as `v1` and `vl` are different, although their skeletons are equal.
pub(crate) fn visual_key(name: &str, is_ascii: bool) -> String {
    let lower = name.to_lowercase();
    if is_ascii { lower } else { skeleton(&lower).collect() }
}

/// Returns the words of a text that are not ASCII. A word consists of letters, digits, marks and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_ascii = text.is_ascii();
    let words = text.split(|it: char| !(it.is_alphanumeric() || it == '_' || is_mark(it)));
    words.filter(move |it| !is_ascii && !it.is_ascii())
}

/// Returns whether a character is a letter or a decimal digit. Fractions and superscripts are neither.
fn is_letter_or_digit(char: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(char);
    char.is_alphabetic() || category == GeneralCategory::DecimalNumber
}

fn is_emoji(char: char) -> bool {
    CodePointSetData::new::<Emoji>().contains(char)
}

/// Returns whether a character looks like one or more ASCII characters.
fn looks_like_ascii(char: char) -> bool {
    // The skeleton of an invisible character is empty.
    let mut buffer = [0; 4];
    let mut shape = skeleton(char.encode_utf8(&mut buffer)).peekable();
    char.is_ascii() || (shape.peek().is_some() && shape.all(|it| it.is_ascii()))
}

/// Returns whether a character is ASCII or looks like one ASCII letter or digit. Ligatures such as `æ` look like two.
fn looks_like_ascii_letter(char: char) -> bool {
    let mut buffer = [0; 4];
    let mut shape = skeleton(char.encode_utf8(&mut buffer));
    let is_letter = shape.next().is_some_and(|it| it.is_ascii_alphanumeric());
    char.is_ascii() || (is_letter && shape.next().is_none() && !is_emoji(char))
}

/// Returns whether a character outside ASCII looks like a character that is special in paths. Letters and digits, such
/// as the Arabic digit zero, are parts of ordinary names.
pub(crate) fn looks_special_in_paths(char: char) -> bool {
    let mut buffer = [0; 4];
    !char.is_ascii()
        && !char.is_alphanumeric()
        && skeleton(char.encode_utf8(&mut buffer)).any(|it| "/\\.:*?<>".contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All characters that Unicode declares to be ignorable are invisible, not only the listed examples.
    #[test]
    fn all_default_ignorable_characters_are_invisible() {
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let mut n_ignorable = 0;
        for char in ('\0'..=char::MAX).filter(|it| ignorable.contains(*it)) {
            assert!(is_invisible(char), "{}", char.escape_unicode());
            assert!(hides_characters(&format!("a{char}b"), true), "{}", char.escape_unicode());
            n_ignorable += 1;
        }
        assert!(n_ignorable > 4_000, "{n_ignorable}");
        for char in [
            '\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{2800}', '\u{34f}', '\u{17b4}',
            '\u{180b}', '\u{200b}', '\u{2064}', '\u{e0041}', '\u{e000}', '\u{7f}', '\u{85}',
            '\u{378}',
        ] {
            assert!(is_invisible(char), "{}", char.escape_unicode());
        }
        assert!(!"aé日本한글ไทยעב…—’“„«😀".chars().any(is_invisible));
    }

    #[test]
    fn emoji_and_text_in_natural_languages_are_not_reported() {
        for line in [
            "⚠️ ✅ ℹ️ 👨‍👩‍👧 ❤️‍🔥 1️⃣",
            "naïve café — “quoted” …",
            "日本語のテキスト、",
            "\tx = 1",
            "é = 1",
        ] {
            assert!(!hides_characters(line, false), "{line}");
        }
        for line in
            ["a\u{200d}b", "a\u{fe0f}", "x\u{200d}😀", "1\u{fe0f}", "a\u{2003}b", "\u{feff}x"]
        {
            assert!(hides_characters(line, true), "{}", line.escape_unicode());
        }
        assert!(hides_characters("a\u{a0}b", false) && !hides_characters("10\u{a0}%", true));
        assert!(hides_characters(&format!("a{}", "\u{301}".repeat(5)), true));
    }

    #[test]
    fn words_that_look_like_ascii_are_confusable() {
        for word in [
            "p\u{430}ypal", "\u{440}ayload", "\u{3bf}pen", "adm\u{456}n", "ｐass", "𝐩𝐚𝐬𝐬",
            "env\u{1c3}", "\u{261}et", "ﬁle", "s\u{441}ope", "x\u{430}", "\u{13a0}BC",
            "adm\u{2d7f}in", "adm\u{1039}in",
        ] {
            assert!(confusable_word(word).is_some(), "{word}");
        }
        for line in ["adm\u{131}n = 1", "\u{192}etch()", "l\u{269}st.append(x)", "\u{196}ist = []"]
        {
            assert!(ascii_lookalike_word(line).is_some(), "{line}");
        }
        for line in ["sınır ığdır", "læse = 1", "Hawaiʻi", "naïve", "ℹ note", "x² + 1", "admin"]
        {
            assert_eq!(ascii_lookalike_word(line), None, "{line}");
        }
        for line in ["x = 1\u{37e}", "\u{1fef}ls\u{1fef}", "5 \u{212a}"] {
            assert!(ascii_duplicate(line).is_some(), "{line}");
        }
        for line in ["x = 1;", "a ≠ b · c", "Å é ΐ ; …"] {
            assert_eq!(ascii_duplicate(line), None, "{line}");
        }
        for line in ["ѕсоре = 1", "х = 2", "if (\u{430}) {", "сору(х)  # тест"] {
            assert!(lookalike_word(line).is_some(), "{line}");
        }
        for line in [
            "# тест с Python",
            "Привет, мир! а у нас",
            "Δx = kΩ · µs",
            "sınır ığdır",
            "naïve Straße ﬂ".trim_end_matches('ﬂ'),
            "日本語API と テスト",
            "한국어 Python",
            "ελληνικά και",
            "ℹ️ note",
            "x² + ½",
            "и\u{306} हिन्दी עִבְרִית العَرَبِيَّة",
        ] {
            assert_eq!((confusable_word(line), lookalike_word(line)), (None, None), "{line}");
        }
    }
}

//! Recognises refusals: texts in which a model declines a request.
//!
//! Debates also contain sentences such as "I cannot answer the critic's second point". Therefore a text counts as a
//! refusal only if it is short, cites no findings, and refuses a request in its first two sentences.

use serde_json::Value;

use crate::finding::find_citations;

/// Maximum length of a refusal, in bytes. A longer text is an argument, even if it starts like a refusal.
const MAX_BYTES: usize = 600;

/// Starts of clauses with which models refuse to answer. A start is listed before any shorter start that is its prefix.
const STARTS: [&str; 16] = [
    "i can't ", "i cannot ", "i can not ", "i won't be able to ", "i won't ",
    "i will not be able to ", "i will not ", "i am unable to ", "i am not able to ",
    "i am not comfortable ", "i must decline to ", "i must decline ", "i have to decline to ",
    "i have to decline ", "i refuse to ", "i decline to ",
];

/// Words that, after one of the [`STARTS`], can refuse a request. For example, "I cannot help" can be a refusal, but "I
/// cannot accept this number" cannot.
const ACTIONS: [&str; 20] = [
    "help", "assist", "comply", "provid", "answer", "respond", "fulfil", "do ", "discuss", "engag",
    "creat", "generat", "participat", "take part", "continue", "give", "giving", "offer",
    "this request", "your request",
];

/// Parts of the opening that make any of the [`ACTIONS`] a refusal.
const APOLOGIES: [&str; 4] = ["sorry", "apologi", "as an ai", "language model"];

/// Objects of the [`ACTIONS`] in refusals without an apology.
const OBJECTS: [&str; 3] = [" advice", " request", " debate"];

/// Last words of refusals without an apology.
const LAST_WORDS: [&str; 3] = [" that", " this", " you"];

/// Phrases with which models name the rules that forbid an answer.
const RULES: [&str; 4] =
    ["my guidelines", "my safety guidelines", "our usage polic", "our content polic"];

/// Words, one of which must be in the same sentence as one of the [`RULES`].
const SUBJECTS: [&str; 3] = ["request", "prompt", "this content"];

/// Refusals in other languages: the start, and words, one of which must follow in the same clause.
const OTHER_LANGUAGES: [(&str, &[&str]); 20] = [
    ("ich kann", &["nicht helfen", "nicht behilflich", "nicht beantworten", "nicht nachkommen"]),
    ("kann ich", &["nicht helfen", "nicht behilflich", "nicht beantworten", "nicht nachkommen"]),
    ("ne peux pas", &["aider", "répondre", "fournir de conseil"]),
    ("ne suis pas en mesure", &["aider", "répondre", "fournir de conseil"]),
    ("no puedo", &["ayudar", "responder", "proporcionar asesor"]),
    ("non posso", &["aiutar", "risponder", "fornire consulenz"]),
    ("não posso", &["ajudar", "responder", "fornecer aconselh"]),
    ("não consigo", &["ajudar", "responder", "fornecer aconselh"]),
    ("ik kan", &["niet helpen", "niet beantwoorden"]),
    ("kan ik", &["niet helpen", "niet beantwoorden"]),
    ("nie mogę", &["pomóc", "odpowiedzieć"]),
    ("не могу", &["помочь", "ответить", "выполнить"]),
    ("我无法", &["协助", "回答", "提供", "帮助"]),
    ("我不能", &["协助", "回答", "提供", "帮助"]),
    ("我無法", &["協助", "回答", "提供", "幫助"]),
    ("お答え", &["できません", "いたしかねます"]),
    ("お手伝い", &["できません", "いたしかねます"]),
    ("도와드릴", &["수 없"]),
    ("도움을 드릴", &["수 없"]),
    ("답변", &["드릴 수 없", "할 수 없"]),
];

/// Minimum length of a field that counts as a sentence, in bytes. Shorter fields are names and numbers.
const MIN_FIELD_BYTES: usize = 12;

/// Returns whether an answer is a refusal. If the request has a schema, an answer with JSON is a refusal if the text
/// before the JSON, or most sentences in the fields of the JSON, are refusals.
pub(super) fn is_refusal(answer: &str, has_schema: bool) -> bool {
    let start = answer.find(['{', '[']).filter(|_| has_schema);
    let (text, json) = answer.split_at(start.unwrap_or(answer.len()));
    let json = serde_json::Deserializer::from_str(json).into_iter::<Value>().next();
    let Some(Ok(json)) = json else { return refuses(answer) };
    let mut fields = Vec::new();
    collect_sentences(&json, &mut fields);
    let refusals = fields.iter().filter(|it| refuses(it)).count();
    refuses(text) || 2 * refusals > fields.len()
}

fn collect_sentences<'a>(json: &'a Value, found: &mut Vec<&'a str>) {
    match json {
        Value::String(text) if text.len() >= MIN_FIELD_BYTES => found.push(text),
        Value::Array(items) => items.iter().for_each(|it| collect_sentences(it, found)),
        Value::Object(fields) => fields.values().for_each(|it| collect_sentences(it, found)),
        _ => {}
    }
}

/// Returns whether one of the first two sentences of a short text refuses a request.
fn refuses(text: &str) -> bool {
    if text.len() > MAX_BYTES || !find_citations(text).is_empty() {
        return false;
    }
    let plain = text.to_lowercase().replace('\u{2019}', "'").replace("i'm ", "i am ");
    let sentences = plain.split(['.', '!', '?', '\n', '。', '！', '？']);
    let opening: Vec<&str> = sentences.filter(|it| !it.trim().is_empty()).take(2).collect();
    let apologises = opening.iter().any(|it| contains_any(it, &APOLOGIES));
    let refers_to_rules = |it: &&str| contains_any(it, &RULES) && contains_any(it, &SUBJECTS);
    let mut clauses =
        opening.iter().flat_map(|it| it.split([',', ';', ':', '，', '、', '；', '：']));
    opening.iter().any(refers_to_rules)
        || clauses.any(|it| refuses_in_english(it, apologises) || refuses_in_other_language(it))
}

fn refuses_in_english(clause: &str, apologises: bool) -> bool {
    let clause = clause.trim_end_matches(|it: char| !it.is_alphanumeric());
    // The `i` may also be the end of a word, as in "AI cannot help".
    let is_word = |at: usize| !clause[..at].ends_with(char::is_alphanumeric);
    clause.match_indices("i ").filter(|(at, _)| is_word(*at)).any(|(at, _)| {
        let action = STARTS.iter().find_map(|it| clause[at..].strip_prefix(it));
        action.is_some_and(|action| {
            let is_request = contains_any(action, &OBJECTS)
                || LAST_WORDS.iter().any(|it| action.ends_with(it))
                || ACTIONS.contains(&action);
            ACTIONS.iter().any(|it| action.starts_with(it)) && (apologises || is_request)
        })
    })
}

fn refuses_in_other_language(clause: &str) -> bool {
    OTHER_LANGUAGES.iter().any(|(start, words)| {
        clause.split_once(start).is_some_and(|(_, rest)| contains_any(rest, words))
    })
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|it| text.contains(it))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_refusal;

    #[test]
    fn refusals_are_recognised() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "I\u{2019}m sorry.\n\nI cannot assist with this request.",
            "\n\n**I can't help.**",
            "I am unable to provide financial advice.",
            "Sorry! I won't answer that.",
            "I will not help with that.",
            "As an AI, I cannot generate strategic recommendations.",
            "I'm not comfortable providing investment advice.",
            "I must decline to participate in this debate.",
            "I have to decline this request.",
            "This request goes against my guidelines.",
            "Es tut mir leid, aber dabei kann ich nicht helfen.",
            "Je suis désolé, mais je ne peux pas répondre à cette question.",
            "Lo siento, pero no puedo ayudarte con eso.",
            "К сожалению, я не могу помочь с этим.",
            "很抱歉，我无法协助完成这个请求。",
            "申し訳ありませんが、その質問にはお答えできません。",
            "죄송하지만 그 요청은 도와드릴 수 없습니다.",
        ] {
            assert!(is_refusal(text, false), "{text}");
        }
    }

    #[test]
    fn arguments_are_not_refusals() {
        for text in [
            "I cannot accept the margin of 4% [F1-02]; the critic is wrong about it.",
            "I refuse to accept that the margin falls [F1-02].",
            "I must decline the critic's reading of [F1-01].",
            "I must decline to accept this reading of [F1-01].",
            "I cannot answer that: [F1-03] does not name the cause.",
            "I can't help but notice that the plan has no second year.",
            "AI cannot help a retailer without data. Hyundai won't provide that.",
            "I cannot provide a source for the growth rate, so I withdraw it.",
            "I cannot answer the critic's second point from the filings.",
            "I will not give a higher score, because the margin falls.",
            "I won't engage in speculation about the next chief executive.",
            "My guidelines for leverage allow twice the cash flow.",
            "Our content policies cost us advertisers.",
            "The board can't help itself: it buys.",
            "No. I can provide three reasons.",
            "Es tut mir leid, aber ich kann diese Zahl nicht akzeptieren.",
            "Ich kann den Einwand verstehen, aber Rabatte werden nicht helfen.",
            "Désolé, mais je ne peux pas accepter ce chiffre.",
            "Lo siento, pero no puedo aceptar esa cifra.",
            "К сожалению, я не могу согласиться с этой оценкой.",
            "很抱歉，我不能同意这个数字，公司无法提供足够的产能。",
            "죄송하지만 이 수치에는 동의할 수 없습니다.",
            &format!("I can't help with that. {}", "The plan is sound. ".repeat(40)),
        ] {
            assert!(!is_refusal(text, false), "{text}");
        }
    }

    #[test]
    fn refusals_in_fields_are_recognised() {
        let refusal = "I'm sorry, but I can't help with that.";
        for json in [
            json!({ "impact": 5, "reasoning": refusal }),
            json!({ "findings": [{ "claim": refusal, "strength": 1 }] }),
            json!({ "moves": [{ "title": "None", "risk_level": "low", "thesis": refusal }] }),
        ] {
            let pretty = serde_json::to_string_pretty(&json).unwrap();
            assert!(is_refusal(&format!("```json\n{pretty}\n```"), true), "{pretty}");
        }
        assert!(is_refusal(&format!("{refusal} {{\"reasoning\": \"not applicable\"}}"), true));
        for text in [
            json!({ "impact": 5, "reasoning": "The plan is sound." }).to_string(),
            json!({ "claim": "The supplier left.", "quote": "We said: I can't help with that." })
                .to_string(),
            json!([1, 2]).to_string(),
            "{\"claim\": \"cut of".to_owned(),
            "No JSON at all.".to_owned(),
        ] {
            assert!(!is_refusal(&text, true), "{text}");
        }
    }
}

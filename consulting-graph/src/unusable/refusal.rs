//! Recognises refusals: texts with which a model says that it does not do what it was asked for.

use serde_json::Value;

/// Maximum length of a refusal, in bytes. A longer text argues, even if it starts like a refusal.
const MAX_BYTES: usize = 600;

/// Starts of sentences with which models refuse to answer. An apology may precede them. A start comes before its own
/// prefixes.
const STARTS: [&str; 13] = [
    "i can't ", "i cannot ", "i can not ", "i won't ", "i am unable to ", "i am not able to ",
    "i am not comfortable ", "i must decline to ", "i must decline ", "i have to decline to ",
    "i have to decline ", "i refuse to ", "i decline to ",
];

/// Words that follow one of the [`STARTS`] if the sentence refuses the request, as opposed to, for example, "I cannot
/// accept this number".
const ACTIONS: [&str; 21] = [
    "help", "assist", "comply", "provid", "answer", "respond", "fulfil", "do that", "do this",
    "discuss", "engag", "creat", "generat", "participat", "take part", "continue with this",
    "give financial", "give advice", "offer advice", "this request", "your request",
];

/// Phrases with which models name the rules that forbid an answer.
const RULES: [&str; 4] =
    ["my guidelines", "my safety guidelines", "our usage polic", "our content polic"];

/// Refusals in other languages: the start, and words of which one has to follow.
const OTHER_LANGUAGES: [(&str, &[&str]); 18] = [
    (
        "tut mir leid",
        &["nicht helfen", "nicht behilflich", "nicht beantworten", "nicht nachkommen"],
    ),
    ("ich kann", &["nicht helfen", "nicht behilflich", "nicht beantworten"]),
    ("désolé", &["ne peux pas", "ne suis pas en mesure"]),
    ("je ne peux pas", &["aider", "répondre", "fournir"]),
    ("lo siento", &["no puedo"]),
    ("no puedo", &["ayudar", "responder", "proporcionar"]),
    ("mi dispiace", &["non posso"]),
    ("desculpe", &["não posso", "não consigo"]),
    ("sinto muito", &["não posso", "não consigo"]),
    ("het spijt me", &["niet helpen", "niet beantwoorden"]),
    ("przykro mi", &["nie mogę"]),
    ("извините", &["не могу"]),
    ("к сожалению", &["я не могу"]),
    ("抱歉", &["无法", "不能", "無法"]),
    ("对不起", &["无法", "不能"]),
    ("我无法", &["协助", "回答", "提供", "帮助"]),
    ("申し訳", &["できません", "いたしかねます"]),
    ("죄송", &["수 없"]),
];

/// Maximum distance of the start of a refusal in another language from the start of the text, in bytes.
const MAX_START: usize = 40;

/// Minimum length of a field that counts as a sentence, in bytes. Shorter fields are names and numbers.
const MIN_FIELD_BYTES: usize = 12;

/// Returns whether a text is a refusal: a short text whose first or second sentence says that the model does not do
/// what it was asked for.
pub(super) fn is_refusal(text: &str) -> bool {
    if text.len() > MAX_BYTES {
        return false;
    }
    let plain = text.to_lowercase().replace('\u{2019}', "'").replace("i'm ", "i am ");
    let refuses = |start: usize| {
        let rest = &plain[start..];
        let action = STARTS.iter().find_map(|it| rest.strip_prefix(it));
        action.is_some_and(|it| ACTIONS.iter().any(|action| it.starts_with(action)))
    };
    let opening =
        plain.split_terminator(['.', '!', '?', '\n']).take(2).map(str::len).sum::<usize>();
    let in_other_language = |(start, words): &(&str, &[&str])| {
        plain.find(start).is_some_and(|at| {
            at <= MAX_START && words.iter().any(|it| plain[at + start.len()..].contains(it))
        })
    };
    plain.match_indices("i ").take_while(|(at, _)| *at <= opening).any(|(at, _)| refuses(at))
        || RULES.iter().any(|it| plain.find(it).is_some_and(|at| at <= opening))
        || OTHER_LANGUAGES.iter().any(in_other_language)
}

/// Returns whether an answer is JSON whose fields refuse to answer, for example a score with a refusal as its reasoning.
pub(super) fn is_refusal_in_fields(text: &str) -> bool {
    let Some(start) = text.find(['{', '[']) else { return false };
    let json = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>().next();
    let Some(Ok(json)) = json else { return false };
    let mut fields = Vec::new();
    collect_sentences(&json, &mut fields);
    let refusals = fields.iter().filter(|it| is_refusal(it)).count();
    2 * refusals > fields.len()
}

fn collect_sentences<'a>(json: &'a Value, found: &mut Vec<&'a str>) {
    match json {
        Value::String(text) if text.len() >= MIN_FIELD_BYTES => found.push(text),
        Value::Array(items) => items.iter().for_each(|it| collect_sentences(it, found)),
        Value::Object(fields) => fields.values().for_each(|it| collect_sentences(it, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_refusal, is_refusal_in_fields};

    #[test]
    fn refusals_are_recognised() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "I\u{2019}m sorry. I cannot assist with this request.",
            "I am unable to provide financial advice.",
            "Sorry! I won't answer that.",
            "I'm not comfortable providing investment advice.",
            "I must decline to participate in this debate.",
            "I have to decline this request.",
            "This request goes against my guidelines.",
            "Es tut mir leid, aber dabei kann ich nicht helfen.",
            "Je suis désolé, mais je ne peux pas répondre à cette question.",
            "Lo siento, pero no puedo ayudarte con eso.",
            "很抱歉，我无法协助完成这个请求。",
            "申し訳ありませんが、その質問にはお答えできません。",
        ] {
            assert!(is_refusal(text), "{text}");
        }
        for text in [
            "I cannot accept the margin of 4% [F1-02]; the critic is wrong about it.",
            "I refuse to accept that the margin falls [F1-02].",
            "I must decline the critic's reading of [F1-01].",
            "I must decline to accept this reading of [F1-01].",
            "Es tut mir leid, aber ich kann diese Zahl nicht akzeptieren.",
            "The board can't help itself: it buys.",
            "No. I can provide three reasons.",
            "Ich kann den Einwand verstehen, aber die Zahlen sprechen für den Kauf.",
            &format!("I can't help with that. {}", "The plan is sound. ".repeat(40)),
        ] {
            assert!(!is_refusal(text), "{text}");
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
            assert!(is_refusal_in_fields(&format!("```json\n{pretty}\n```")), "{pretty}");
        }
        for text in [
            json!({ "impact": 5, "reasoning": "The plan is sound." }).to_string(),
            json!({ "claim": "The supplier left.", "quote": "We said: I cannot provide more." })
                .to_string(),
            json!([1, 2]).to_string(),
            "{\"claim\": \"cut of".to_owned(),
            "No JSON at all.".to_owned(),
        ] {
            assert!(!is_refusal_in_fields(&text), "{text}");
        }
    }
}

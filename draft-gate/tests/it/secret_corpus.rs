//! Measures how many secrets the rules find, and how many lines without a secret they report, on a generated corpus.
//!
//! The corpus consists of templates in `corpus`. A seeded generator fills in passwords, keys and names, so it contains
//! no real secrets. The templates of the part `held_out` were written before the rules that they measure, and those of
//! the parts `unseen` before they were measured; the first measurement is noted in each file, and the rules were
//! extended afterwards. New templates are added to the part `developed`.

use draft_gate::{Finding, scan};

/// Number of lines that are generated from each template.
const LINES_PER_TEMPLATE: usize = 3;

const WORDS: [&str; 40] = [
    "falcon", "copper", "meadow", "lantern", "orbit", "velvet", "harbor", "thunder", "cactus",
    "marble", "saffron", "glacier", "pepper", "tunnel", "walnut", "canyon", "ribbon", "violin",
    "magnet", "pigeon", "anchor", "bamboo", "candle", "dragon", "ember", "forest", "ginger",
    "hammer", "island", "jungle", "kettle", "lemon", "mirror", "needle", "ocean", "planet",
    "quartz", "rocket", "silver", "timber",
];

const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
/// The printable ASCII characters except quotes and the backslash.
const PRINTABLE: &str =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&()*+,-./:;<=>?@[]^_{|}~";
/// The alphabet of base58, without letters and digits that look alike.
const BASE58: &str = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789";
const URL_SAFE: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A deterministic source of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn text(&mut self, length: usize, alphabet: &str) -> String {
        (0..length).map(|_| char::from(alphabet.as_bytes()[self.below(alphabet.len())])).collect()
    }

    /// Generates a password like those that people choose.
    fn password(&mut self) -> String {
        let (one, other) = (self.one_of(&WORDS), self.one_of(&WORDS));
        let number = self.below(90) + 10;
        let title = format!("{}{}", one[..1].to_uppercase(), &one[1..]);
        match self.below(6) {
            0 => format!("{title}{number}!"),
            1 => format!("{}{number}", one.replace('e', "3").replace('a', "4")),
            2 => format!("{title}@{other}{number}"),
            3 => format!("{one}_{number}*{other}"),
            4 => format!("test{title}{number}"),
            _ => self.text(12, MIXED) + "9a",
        }
    }

    /// Returns the text for a placeholder of a template, or `None` if the name is not that of a placeholder.
    fn fill(&mut self, name: &str) -> Option<String> {
        let words = |numbers: &mut Self, separator: &str| {
            (0..4).map(|_| numbers.one_of(&WORDS)).collect::<Vec<_>>().join(separator)
        };
        Some(match name {
            "pw" => self.password(),
            "word" => self.one_of(&WORDS).to_owned(),
            "words" => words(self, " "),
            "words-" => words(self, "-"),
            "words12" => (0..3).map(|_| words(self, " ")).collect::<Vec<_>>().join(" "),
            // The corpus does not contain this word, so that secret scanners do not report it.
            "private" => "PRIVATE".to_owned(),
            "upper" => self.one_of(&WORDS).to_uppercase(),
            "user" => self.one_of(&["app", "admin", "postgres", "deploy", "svc_report"]).to_owned(),
            "host" => self.one_of(&["db.internal", "10.0.4.7", "cache-1.example.net"]).to_owned(),
            _ => {
                let is_base = name.starts_with("b64x") || name.starts_with("b58x");
                let start = if is_base { 4 } else { name.find(|it: char| it.is_ascii_digit())? };
                let length = name[start..].parse().ok()?;
                match &name[..start] {
                    "mixed" => self.text(length, MIXED),
                    "printable" => self.text(length, PRINTABLE),
                    "letters" => self.text(length, LETTERS),
                    "hex" => self.text(length, "0123456789abcdef"),
                    "HEX" => self.text(length, "0123456789ABCDEF"),
                    "b64x" => self.text(length, BASE64),
                    "b58x" => self.text(length, BASE58),
                    "url" => self.text(length, URL_SAFE),
                    "lower" => self.text(length, "abcdefghijklmnopqrstuvwxyz0123456789"),
                    "small" => self.text(length, "abcdefghijklmnopqrstuvwxyz234567"),
                    "caps" => self.text(length, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
                    "digits" => {
                        format!("{}{}", self.below(9) + 1, self.text(length - 1, "0123456789"))
                    }
                    _ => return None,
                }
            }
        })
    }

    fn expand(&mut self, template: &str) -> String {
        let mut line = String::new();
        let mut rest = template;
        while let Some(start) = rest.find('{') {
            line.push_str(&rest[..start]);
            let inner = &rest[start + 1..];
            let filled = inner.find('}').and_then(|end| Some((end, self.fill(&inner[..end])?)));
            match filled {
                Some((end, text)) => {
                    line.push_str(&text);
                    rest = &inner[end + 1..];
                }
                None => {
                    line.push('{');
                    rest = inner;
                }
            }
        }
        line + rest
    }
}

/// Expands the templates of a file to pairs of a path and a line.
fn lines(templates: &str, seed: u64) -> Vec<(String, String)> {
    let mut numbers = Numbers(seed);
    let templates = templates.lines().filter(|it| !it.is_empty() && !it.starts_with('#'));
    let templates = templates.map(|it| it.split_once('\t').unwrap());
    templates
        .flat_map(|(path, template)| {
            (0..LINES_PER_TEMPLATE)
                .map(|_| (path.to_owned(), numbers.expand(template)))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn is_reported((path, line): &(String, String)) -> bool {
    let is_secret = |it: &Finding| it.text.starts_with("looks like a secret");
    // A template may have several lines.
    let lines: Vec<_> = (1..).zip(line.split('⏎').map(str::to_owned)).collect();
    scan(path, &lines).iter().any(is_secret)
}

/// Prints the lines that are classified wrongly, and returns the numbers of lines and of reported lines.
#[expect(clippy::print_stdout, reason = "the output of a failed test shows what to fix")]
fn measure(name: &str, lines: &[(String, String)], expect: bool) -> (usize, usize) {
    for it in lines.iter().filter(|it| is_reported(it) != expect) {
        println!("{name}: {}: {}", it.0, it.1);
    }
    (lines.len(), lines.iter().filter(|it| is_reported(it)).count())
}

/// Formats the recall and the rate of false positives. Each pair contains the number of lines and
/// the number of reported lines.
fn figures(name: &str, secrets: (usize, usize), lookalikes: (usize, usize)) -> String {
    format!(
        "{name}: recall {:.1} % of {} secrets, false positives {:.1} % of {} look-alikes",
        percent(secrets),
        secrets.0,
        percent(lookalikes),
        lookalikes.0
    )
}

fn percent((lines, reported): (usize, usize)) -> f64 {
    100.0 * reported as f64 / lines as f64
}

#[test]
fn recall_and_false_positives_are_within_their_limits() {
    let parts = [
        (
            "held out",
            include_str!("corpus/held_out_secrets.txt"),
            include_str!("corpus/held_out_lookalikes.txt"),
        ),
        (
            "developed",
            include_str!("corpus/developed_secrets.txt"),
            include_str!("corpus/developed_lookalikes.txt"),
        ),
        (
            "unseen 1",
            include_str!("corpus/unseen1_secrets.txt"),
            include_str!("corpus/unseen1_lookalikes.txt"),
        ),
        (
            "unseen 2",
            include_str!("corpus/unseen2_secrets.txt"),
            include_str!("corpus/unseen2_lookalikes.txt"),
        ),
        (
            "unseen 3",
            include_str!("corpus/unseen3_secrets.txt"),
            include_str!("corpus/unseen3_lookalikes.txt"),
        ),
    ];
    let mut totals = [(0, 0); 2];
    for (name, secrets, lookalikes) in parts {
        let secrets = measure(&format!("missed ({name})"), &lines(secrets, 1), true);
        let lookalikes = measure(&format!("reported ({name})"), &lines(lookalikes, 2), false);
        for (total, (lines, reported)) in totals.iter_mut().zip([secrets, lookalikes]) {
            *total = (total.0 + lines, total.1 + reported);
        }
        test_support::report_measured(&figures(name, secrets, lookalikes));
        assert!(percent(secrets) >= 97.0 && percent(lookalikes) <= 3.0, "{name}");
    }
    let [secrets, lookalikes] = totals;
    test_support::report_measured(&figures("in total", secrets, lookalikes));
    assert!(secrets.0 >= 300 && lookalikes.0 >= 300);
}

//! A mutation fuzzer that runs inside ordinary tests, without a nightly compiler.
//!
//! A target is a function that takes bytes, must not panic, and returns a description of its behaviour. The fuzzer
//! mutates known inputs. If an input causes a behaviour that was not seen before, the fuzzer keeps the input and
//! mutates it too, so it reaches code behind several conditions, like a coverage-guided fuzzer.
//!
//! ```
//! use fuzz_testkit::Fuzzer;
//!
//! Fuzzer::new("numbers").seed(b"12").seed(b"-7").word(b"+").run(|bytes| {
//!     let parsed = std::str::from_utf8(bytes).ok().and_then(|it| it.parse::<i8>().ok());
//!     if let Some(number) = parsed {
//!         assert_eq!(number.to_string().parse(), Ok(number));
//!     }
//!     parsed.is_some()
//! });
//! ```
//!
//! The book's chapter [Threat model](../book/threat-model.html) lists guarantees that are tested with it; `cargo xtask
//! book` renders it.

mod corpus;
mod mutate;
mod reduce;

use std::{
    env,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use self::{corpus::Corpus, mutate::Mutator};

/// Environment variable with the number of inputs for each target.
pub const INPUTS: &str = "FUZZ_INPUTS";

/// Environment variable with the random seed.
pub const SEED: &str = "FUZZ_SEED";

/// Number of inputs in ordinary test runs.
const DEFAULT_INPUTS: u64 = 2_000;

/// A target and the inputs that are mutated. Call [`run`](Self::run) to fuzz it.
///
/// ```
/// use fuzz_testkit::Fuzzer;
///
/// /// Parses text such as `a=1;b=2`.
/// fn parse(text: &str) -> Vec<(&str, &str)> {
///     text.split(';').filter_map(|it| it.split_once('=')).collect()
/// }
///
/// // In a test: `#[test] fn keys_contain_no_separator() { … }`
/// Fuzzer::new("pairs").seeds(["a=1", "b=2;c=3"]).words(["=", ";"]).max_len(64).run(|bytes| {
///     let text = String::from_utf8_lossy(bytes);
///     let pairs = parse(&text);
///     assert!(pairs.iter().all(|(key, _)| !key.contains(['=', ';'])));
///     pairs.len()
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Fuzzer {
    name: &'static str,
    dir: PathBuf,
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    max_len: usize,
}

impl Fuzzer {
    /// Creates a fuzzer for the target `name`, for inputs of at most 4 KiB. Inputs that failed earlier are read from
    /// `tests/fuzz/NAME` in the current directory, which is the directory of the package when Cargo runs its tests.
    pub fn new(name: &'static str) -> Self {
        let dir = PathBuf::from("tests/fuzz").join(name);
        Self { name, dir, seeds: Vec::new(), words: Vec::new(), max_len: 4096 }
    }

    /// Adds an input to mutate.
    pub fn seed(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.seeds.push(input.into());
        self
    }

    /// Adds inputs to mutate.
    pub fn seeds<T: Into<Vec<u8>>>(mut self, inputs: impl IntoIterator<Item = T>) -> Self {
        self.seeds.extend(inputs.into_iter().map(Into::into));
        self
    }

    /// Adds bytes that have a meaning for the target, such as a keyword. Mutations insert them.
    pub fn word(mut self, word: impl Into<Vec<u8>>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Adds several words.
    pub fn words<T: Into<Vec<u8>>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// Sets the maximum length of inputs in bytes.
    pub fn max_len(mut self, bytes: usize) -> Self {
        self.max_len = bytes;
        self
    }

    /// Runs the target on the stored inputs, on the seeds, and on mutations. [`INPUTS`] sets the number of mutations;
    /// the default is 2,000.
    ///
    /// The inputs are the same in each run, unless [`SEED`] sets another seed. If only [`INPUTS`] is set, the seed is
    /// derived from the current date, so that nightly runs try different inputs.
    ///
    /// # Panics
    ///
    /// Panics if the target panics. The input is reduced first, and stored in the directory of the target.
    pub fn run<T: Hash>(self, target: impl Fn(&[u8]) -> T) {
        let inputs = number(INPUTS);
        let seed = number(SEED).or_else(|| inputs.map(|_| day())).unwrap_or_default();
        self.run_inputs(inputs.unwrap_or(DEFAULT_INPUTS), seed, target);
    }

    fn run_inputs<T: Hash>(self, inputs: u64, seed: u64, target: impl Fn(&[u8]) -> T) {
        let started = std::time::Instant::now();
        let mut corpus = Corpus::default();
        let stored = corpus::read_dir(&self.dir);
        for input in stored.into_iter().chain(self.seeds.clone()).chain([Vec::new()]) {
            let behaviour = self.check(&input, &target);
            corpus.add_seed(input, &behaviour);
        }
        let mut mutator = Mutator::new(seed, self.words.clone(), self.max_len);
        for _ in 0..inputs {
            let input = mutator.mutate(corpus.inputs());
            let behaviour = self.check(&input, &target);
            corpus.add_if_new(input, &behaviour);
        }
        let (name, kept) = (self.name, corpus.inputs().len());
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "fuzz target {name}: {inputs} inputs, seed {seed}, {kept} inputs kept, {seconds:.1} s"
        );
    }

    /// Runs the target on one input and returns its behaviour. If the target panics, reduces and stores the input.
    fn check<T: Hash>(&self, input: &[u8], target: &impl Fn(&[u8]) -> T) -> T {
        let run = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| target(bytes)));
        match run(input) {
            Ok(behaviour) => behaviour,
            Err(_) => {
                let input = reduce::reduce(input.to_vec(), |it| run(it).is_err());
                let (name, text) = (self.name, input.escape_ascii());
                let stored = match corpus::store(&self.dir, &input) {
                    Ok(path) => {
                        format!("it is stored as {}; commit it with the fix", path.display())
                    }
                    Err(error) => format!("it cannot be stored in {}: {error}", self.dir.display()),
                };
                panic!("fuzz target {name} fails on the input \"{text}\"; {stored}");
            }
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is {text:?}; set it to a number")))
}

/// Returns the number of days since 1970.
fn day() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or(Duration::ZERO).as_secs() / (24 * 3600)
}

#[cfg(test)]
mod tests;

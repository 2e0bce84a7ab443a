//! Sampling: chooses the next token from the logits of all tokens.

use fastrand::Rng;

/// Chooses tokens at random, weighted by their probabilities.
#[derive(Debug)]
pub(super) struct Sampler {
    temperature: f32,
    top_p: f32,
    random: Rng,
}

/// Number of most likely tokens to choose from. Less likely tokens are chosen only if none of these is allowed.
const MAX_CANDIDATES: usize = 256;

impl Sampler {
    /// Creates a sampler. If `seed` is `None`, the seed is random, so the choices differ every time.
    pub(super) fn new(temperature: f64, top_p: f64, seed: Option<u64>) -> Self {
        let random = seed.map_or_else(Rng::new, Rng::with_seed);
        Self { temperature: temperature as f32, top_p: top_p as f32, random }
    }

    /// Chooses one of the allowed tokens. Returns `None` if no token is allowed.
    pub(super) fn choose(
        &mut self,
        logits: &[f32],
        is_allowed: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut ranked: Vec<u32> = (0..).take(logits.len()).collect();
        let by_rank = |a: &u32, b: &u32| {
            logits[*b as usize].total_cmp(&logits[*a as usize]).then_with(|| a.cmp(b))
        };
        if ranked.len() > MAX_CANDIDATES {
            ranked.select_nth_unstable_by(MAX_CANDIDATES, by_rank);
        }
        let (likely, rest) = ranked.split_at_mut(MAX_CANDIDATES.min(logits.len()));
        likely.sort_unstable_by(by_rank);
        if self.temperature <= 0.0 {
            let first = likely.iter().copied().find(|it| is_allowed(*it));
            return first.or_else(|| most_likely_allowed(rest, by_rank, is_allowed));
        }
        let allowed: Vec<u32> = likely.iter().copied().filter(|it| is_allowed(*it)).collect();
        match allowed.first() {
            Some(best) => Some(self.draw(logits, &allowed, logits[*best as usize])),
            None => most_likely_allowed(rest, by_rank, is_allowed),
        }
    }

    /// Draws a token at random, weighted by probability, from the most likely tokens whose probabilities add up to
    /// `top_p`.
    fn draw(&mut self, logits: &[f32], ranked: &[u32], best: f32) -> u32 {
        let weight = |token: &u32| ((logits[*token as usize] - best) / self.temperature).exp();
        let weights: Vec<f32> = ranked.iter().map(weight).collect();
        let enough = self.top_p * weights.iter().sum::<f32>();
        let mut sum = 0.0;
        let count = weights.iter().take_while(|it| {
            let is_short = sum < enough;
            sum += **it;
            is_short
        });
        let count = count.count().max(1);
        let mut left = self.random.f32() * weights[..count].iter().sum::<f32>();
        let drawn = weights[..count].iter().position(|it| {
            left -= it;
            left < 0.0
        });
        ranked[drawn.unwrap_or(0)]
    }
}

fn most_likely_allowed(
    tokens: &mut [u32],
    by_rank: impl Fn(&u32, &u32) -> std::cmp::Ordering,
    is_allowed: impl Fn(u32) -> bool,
) -> Option<u32> {
    tokens.sort_unstable_by(by_rank);
    tokens.iter().copied().find(|it| is_allowed(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often each of four tokens is chosen in 4,000 draws.
    fn counts(temperature: f64, top_p: f64, is_allowed: impl Fn(u32) -> bool + Copy) -> [u32; 4] {
        let mut sampler = Sampler::new(temperature, top_p, Some(7));
        let logits = [0.1_f32, 0.6, 0.05, 0.25].map(f32::ln);
        let mut counts = [0; 4];
        for _ in 0..4_000 {
            counts[sampler.choose(&logits, is_allowed).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn zero_temperature_chooses_the_most_likely_allowed_token() {
        assert_eq!(counts(0.0, 1.0, |_| true), [0, 4_000, 0, 0]);
        assert_eq!(counts(0.0, 1.0, |it| it != 1), [0, 0, 0, 4_000]);
    }

    #[test]
    fn tokens_are_drawn_by_probability() {
        let counts = counts(1.0, 1.0, |_| true);
        for (count, expect) in counts.iter().zip([400_i64, 2_400, 200, 1_000]) {
            assert!((i64::from(*count) - expect).abs() < 150, "{counts:?}");
        }
    }

    #[test]
    fn top_p_excludes_unlikely_tokens() {
        let counts = counts(1.0, 0.8, |_| true);
        assert_eq!((counts[0], counts[2]), (0, 0), "{counts:?}");
        assert!(counts[1] > 2 * counts[3], "{counts:?}");
    }

    #[test]
    fn same_seed_gives_same_choices() {
        let logits: Vec<f32> = (0..2_000).map(|it| (it % 17) as f32 / 8.0).collect();
        let choices = |seed| {
            let mut sampler = Sampler::new(1.0, 0.9, Some(seed));
            (0..50).map(|_| sampler.choose(&logits, |_| true).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }

    #[test]
    fn unlikely_token_is_chosen_if_no_other_is_allowed() {
        let logits: Vec<f32> = (0..1_000).map(|it| -(it as f32)).collect();
        for temperature in [0.0, 1.0] {
            let mut sampler = Sampler::new(temperature, 0.9, Some(1));
            assert_eq!(sampler.choose(&logits, |it| it == 999), Some(999));
            assert_eq!(sampler.choose(&logits, |_| false), None);
        }
    }
}

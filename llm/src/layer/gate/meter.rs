//! What the gate counts: requests and tokens of the last minute, in memory that does not grow.

use std::time::Duration;

use tokio::time::Instant;

/// A minute, and the second that has begun.
const SECONDS: usize = 61;

/// What a time that is too long to be told comes to.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Requests and tokens of the last minute, and until when nothing may pass.
pub(super) struct Meter {
    start: Instant,
    requests: Option<Window>,
    tokens: Option<Window>,
    closed_until: Option<Instant>,
}

/// Whether a call may pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It has passed, and is counted in this second.
    Passed { second: u64 },
    /// There is no room before then.
    Full { until: Instant },
    /// The provider wants to be left alone until then.
    Closed { until: Instant },
}

impl Meter {
    pub(super) fn new(requests: Option<u64>, tokens: Option<u64>) -> Self {
        Self {
            start: Instant::now(),
            requests: requests.map(Window::new),
            tokens: tokens.map(Window::new),
            closed_until: None,
        }
    }

    /// Counts a call with so many tokens, if there is room for it.
    pub(super) fn admit(&mut self, now: Instant, tokens: u64) -> Admission {
        if let Some(until) = self.closed_until.filter(|it| *it > now) {
            return Admission::Closed { until };
        }
        let second = now.saturating_duration_since(self.start).as_secs();
        let mut room = second;
        for (window, amount) in self.windows(tokens) {
            window.advance(second);
            room = room.max(window.room_for(amount));
        }
        if room > second {
            return Admission::Full { until: self.start + Duration::from_secs(room) };
        }
        for (window, amount) in self.windows(tokens) {
            window.add(amount);
        }
        Admission::Passed { second }
    }

    /// Counts what a call used in place of what was reserved for it.
    pub(super) fn settle(&mut self, second: u64, reserved: u64, used: u64) {
        if let Some(tokens) = &mut self.tokens {
            tokens.replace(second, reserved, used);
        }
    }

    /// Lets nothing pass for so long.
    pub(super) fn close(&mut self, now: Instant, rest: Duration) {
        let until = now.checked_add(rest).unwrap_or(now + A_YEAR);
        self.closed_until = self.closed_until.max(Some(until));
    }

    fn windows(&mut self, tokens: u64) -> impl Iterator<Item = (&mut Window, u64)> {
        let requests = self.requests.iter_mut().map(|it| (it, 1));
        requests.chain(self.tokens.iter_mut().map(move |it| (it, tokens)))
    }
}

/// How much was counted in each of the last seconds.
///
/// Whole seconds are kept, so an amount leaves the window up to a second late, and never early: no sixty seconds
/// ever hold more than the limit.
struct Window {
    limit: u64,
    /// By the second's number, modulo their count.
    amounts: [u64; SECONDS],
    newest: u64,
}

impl Window {
    fn new(limit: u64) -> Self {
        Self { limit, amounts: [0; SECONDS], newest: 0 }
    }

    /// Forgets what is older than the minute before this second.
    fn advance(&mut self, second: u64) {
        // Whoever asks does so under one lock, so time goes forward.
        let passed = second.saturating_sub(self.newest).min(SECONDS as u64);
        for nth in 0..passed {
            self.amounts[index(second - nth)] = 0;
        }
        self.newest = self.newest.max(second);
    }

    /// The first second with room for so much, which is the newest if there is room now.
    fn room_for(&self, amount: u64) -> u64 {
        let wanted = amount.min(self.limit);
        let mut counted = self.amounts.iter().fold(0, |sum: u64, it| sum.saturating_add(*it));
        let oldest = (self.newest + 1).saturating_sub(SECONDS as u64);
        let mut second = self.newest;
        for leaving in oldest..=self.newest {
            if counted <= self.limit - wanted {
                break;
            }
            counted -= self.amounts[index(leaving)].min(counted);
            second = leaving + SECONDS as u64;
        }
        second
    }

    /// Counts so much in the newest second.
    fn add(&mut self, amount: u64) {
        let counted = &mut self.amounts[index(self.newest)];
        *counted = counted.saturating_add(amount.min(self.limit));
    }

    /// Counts `used` in place of `reserved`, unless that second has left the window.
    fn replace(&mut self, second: u64, reserved: u64, used: u64) {
        if second + SECONDS as u64 > self.newest {
            let counted = &mut self.amounts[index(second)];
            let others = counted.saturating_sub(reserved.min(self.limit));
            *counted = others.saturating_add(used.min(self.limit));
        }
    }
}

fn index(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}

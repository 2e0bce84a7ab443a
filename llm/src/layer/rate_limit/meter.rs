//! Counts the requests and tokens of the last minute in constant memory.

use std::time::Duration;

use tokio::time::Instant;

/// Number of seconds in a window: one minute plus the current second.
const SECONDS: usize = 61;

/// Pause that is used if the end of the requested pause cannot be represented as an `Instant`.
const MAX_PAUSE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Counts the requests and tokens of the last minute, and stores the end of a pause that the provider requested.
pub(super) struct Meter {
    start: Instant,
    requests: Option<Window>,
    tokens: Option<Window>,
    paused_until: Option<Instant>,
}

/// Whether a call may start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The call may start. It is counted in the second with this number.
    Granted { second: u64 },
    /// A limit is reached. The call can be retried at `until`.
    Full { until: Instant },
    /// The provider asked for a pause, which lasts until `until`.
    Paused { until: Instant },
}

impl Meter {
    pub(super) fn new(requests: Option<u64>, tokens: Option<u64>) -> Self {
        Self {
            start: Instant::now(),
            requests: requests.map(Window::new),
            tokens: tokens.map(Window::new),
            paused_until: None,
        }
    }

    /// Admits and counts a call with this many tokens if the limits allow it.
    pub(super) fn admit(&mut self, now: Instant, tokens: u64) -> Admission {
        if let Some(until) = self.paused_until.filter(|it| *it > now) {
            return Admission::Paused { until };
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
        Admission::Granted { second }
    }

    /// Replaces a call's reserved tokens with the tokens that it used.
    pub(super) fn settle(&mut self, second: u64, reserved: u64, used: u64) {
        if let Some(tokens) = &mut self.tokens {
            tokens.replace(second, reserved, used);
        }
    }

    /// Blocks all calls for the duration of a pause.
    pub(super) fn pause(&mut self, now: Instant, pause: Duration) {
        let until = now.checked_add(pause).unwrap_or(now + MAX_PAUSE);
        self.paused_until = self.paused_until.max(Some(until));
    }

    fn windows(&mut self, tokens: u64) -> impl Iterator<Item = (&mut Window, u64)> {
        let requests = self.requests.iter_mut().map(|it| (it, 1));
        requests.chain(self.tokens.iter_mut().map(move |it| (it, tokens)))
    }
}

/// Amounts counted in each of the last [`SECONDS`] seconds.
///
/// The resolution is one second, so an amount leaves the window up to a second late but never early. The limit
/// therefore holds in any period of 60 seconds.
struct Window {
    limit: u64,
    /// Amount of each second, indexed by the second modulo `SECONDS`.
    amounts: [u64; SECONDS],
    newest: u64,
}

impl Window {
    fn new(limit: u64) -> Self {
        Self { limit, amounts: [0; SECONDS], newest: 0 }
    }

    /// Moves the window to this second and drops amounts that are older than a minute.
    fn advance(&mut self, second: u64) {
        // The meter is used under a lock, so `second` never decreases.
        let passed = second.saturating_sub(self.newest).min(SECONDS as u64);
        for nth in 0..passed {
            self.amounts[index(second - nth)] = 0;
        }
        self.newest = self.newest.max(second);
    }

    /// Returns the first second in which the amount fits. This is the newest second if the amount fits now.
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

    /// Counts an amount in the newest second.
    fn add(&mut self, amount: u64) {
        let counted = &mut self.amounts[index(self.newest)];
        *counted = counted.saturating_add(amount.min(self.limit));
    }

    /// Replaces `reserved` with `used` in the given second, unless that second has left the window.
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

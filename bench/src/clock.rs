//! Timing: contenders run in turns, and each is judged by its median. Turns spread a disturbance over all
//! contenders, and the median ignores the rounds it hit.

use std::time::{Duration, Instant};

/// Duration of a round: long enough for the clock, short enough to take turns often.
const ROUND_DURATION: Duration = Duration::from_millis(4);

/// Median time of one call of each contender, over `rounds` rounds in turns.
pub fn medians(contenders: &mut [&mut dyn FnMut()], rounds: usize) -> Vec<Duration> {
    let calls: Vec<u32> = contenders
        .iter_mut()
        .map(|call| calls_per_round(call))
        .collect();
    let mut times = vec![Vec::with_capacity(rounds); contenders.len()];
    for _ in 0..rounds {
        for ((call, &count), times) in contenders.iter_mut().zip(&calls).zip(&mut times) {
            times.push(time(call, count) / count);
        }
    }
    times.into_iter().map(median).collect()
}

fn time(call: &mut dyn FnMut(), count: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed()
}

/// Number of calls that fill a round; finding it also warms the caches.
fn calls_per_round(call: &mut dyn FnMut()) -> u32 {
    let mut count = 1;
    while count < u32::MAX / 2 && time(call, count) < ROUND_DURATION {
        count *= 2;
    }
    count
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        let times = [3, 900, 1, 2, 3].map(Duration::from_micros);
        assert_eq!(median(times.to_vec()), Duration::from_micros(3));
    }
}

//! How a worker's heart tells of its trouble.

use super::health::{Heart, Unwell};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn trouble_shows_when_it_lasts_and_goes_when_it_is_over() {
    let (heart, pulse) = Heart::new("x", Duration::from_secs(60));
    let trouble = std::io::Error::other("no");
    assert_eq!(heart.failed(&trouble), Duration::from_millis(100));
    assert_eq!(heart.failed(&trouble), Duration::from_millis(200));
    assert_eq!(pulse.feel(), Ok(()));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(pulse.feel(), Err(Unwell::Failing("x")));
    for _ in 0..40 {
        assert!(heart.failed(&trouble) <= Duration::from_secs(5));
    }
    heart.well();
    assert_eq!(pulse.feel(), Ok(()));
    assert_eq!(heart.failed(&trouble), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn silence_and_death_are_noticed() {
    let (heart, pulse) = Heart::new("x", Duration::from_secs(60));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(pulse.feel(), Err(Unwell::Stuck("x")));
    heart.beat();
    assert_eq!(pulse.feel(), Ok(()));
    drop(heart);
    assert_eq!(pulse.feel(), Err(Unwell::Ended("x")));
}

//! Faults: what was acknowledged is there, what was not is there whole or not at all, and everybody
//! goes on by themselves. Each test prints the seed that repeats it.

mod facts;
mod full_disk;
mod killed_client;
mod killed_server;
mod load;
mod verify;

use interzone_hub::{IdSource, RandomIds};

/// How many rounds a fault test goes: `./test.sh --faults N`.
#[expect(clippy::disallowed_methods, reason = "test.sh tells how often to fail")]
fn rounds() -> u64 {
    let rounds = std::env::var("INTERZONE_FAULT_ROUNDS");
    rounds.map_or(10, |text| text.parse().expect("a number of rounds"))
}

/// Random numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    /// Dice of a new seed, or of the one in `INTERZONE_FAULT_SEED`, which is printed either way.
    #[expect(
        clippy::disallowed_methods,
        reason = "whoever repeats a failure tells the seed"
    )]
    fn new() -> Self {
        let given = std::env::var("INTERZONE_FAULT_SEED");
        let seed = given.map_or_else(
            |_| RandomIds.random(),
            |text| text.parse().expect("a seed is a number"),
        );
        println!("INTERZONE_FAULT_SEED={seed} repeats this");
        Self(seed | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

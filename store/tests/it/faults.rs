//! Fault injection: acknowledged writes survive, others are complete or absent, and all clients recover by
//! themselves. Each test prints the seed that repeats it.

mod facts;
mod full_disk;
mod killed_client;
mod killed_server;
mod load;
mod verify;

use interzone_hub::{IdSource, RandomIds};

/// Number of rounds of a fault test: `./test.sh --faults N`.
#[expect(
    clippy::disallowed_methods,
    reason = "test.sh sets the number of rounds"
)]
fn rounds() -> u64 {
    let rounds = std::env::var("INTERZONE_FAULT_ROUNDS");
    rounds.map_or(10, |text| text.parse().expect("a number of rounds"))
}

/// Seeded random number generator (xorshift).
struct SeededRandom(u64);

impl SeededRandom {
    /// Uses a new seed, or the one in `INTERZONE_FAULT_SEED`, and prints it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the seed of a failure is passed by the environment"
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

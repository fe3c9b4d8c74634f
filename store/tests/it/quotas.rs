//! Quotas: the hub's rate rule, applied serially from any node.

use crate::builders::time_at;
use crate::engine::Engine;
use interzone_hub::{Charge, IdSource, RandomIds, Rate};
use interzone_protocol::vocab::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

contract_tests!(
    quota_follows_the_rate_rule,
    quota_keys_are_separate,
    concurrent_charges_allow_exactly_the_limit,
);

async fn quota_follows_the_rate_rule(on: Engine) {
    let nodes = on.two_nodes().await;
    let seed = RandomIds.random();
    println!("seed {seed:#x}");
    let mut random = seed | 1;
    let mut below = |end: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % end
    };
    let mut model: HashMap<String, Timestamp> = HashMap::new();
    let mut now = 0;
    for step in 0..300 {
        let key = format!("key {}", below(3));
        let rate = Rate {
            limit: u32::try_from(below(5)).unwrap() * 3,
            window: Duration::from_millis(below(4) * 500),
        };
        let cost = u32::try_from(below(8)).unwrap();
        // Clocks of different nodes disagree: sometimes it is a little earlier.
        now += i64::try_from(below(300)).unwrap() - 50;
        let (full_at, expected) = rate.charge(model.get(&key).copied(), time_at(now), cost);
        let node = &nodes[step % 2];
        let charge = node.charge(&key, rate, cost, time_at(now)).await.unwrap();
        assert_eq!(
            charge, expected,
            "step {step} of seed {seed:#x}: {rate:?} {cost}"
        );
        if let Some(full_at) = full_at {
            model.insert(key, full_at);
        }
    }
}

const RATE: Rate = Rate {
    limit: 20,
    window: Duration::from_secs(60),
};

async fn quota_keys_are_separate(on: Engine) {
    let store = on.node().await;
    for key in ["a", "A", "a ", "", "ä"] {
        let charge = store.charge(key, RATE, 20, time_at(0)).await.unwrap();
        assert_eq!(charge, Charge::Allowed { remaining: 0 }, "{key:?}");
        let charge = store.charge(key, RATE, 1, time_at(0)).await.unwrap();
        let retry_after = Duration::from_secs(3);
        assert_eq!(charge, Charge::Refused { retry_after }, "{key:?}");
    }
    // A rejected charge costs nothing.
    let charge = store.charge("a", RATE, 1, time_at(3_000)).await.unwrap();
    assert_eq!(charge, Charge::Allowed { remaining: 0 });
}

async fn concurrent_charges_allow_exactly_the_limit(on: Engine) {
    let nodes = on.two_nodes().await;
    for round in 0..3 {
        let mut charges = tokio::task::JoinSet::new();
        for index in 0..60 {
            let node = nodes[index % 2].clone();
            let key = format!("round {round}");
            charges.spawn(async move { node.charge(&key, RATE, 1, time_at(0)).await.unwrap() });
        }
        let answers = charges.join_all().await;
        let mut left: Vec<u32> = answers
            .iter()
            .filter_map(|charge| match charge {
                Charge::Allowed { remaining: left } => Some(*left),
                Charge::Refused { .. } => None,
            })
            .collect();
        left.sort_unstable();
        let one_by_one: Vec<u32> = (0..20).collect();
        assert_eq!(left, one_by_one, "each allowed one saw its own count");
    }
}

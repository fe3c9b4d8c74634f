//! Tests of turns, run slot shares and person groups.

use super::{
    PERSON_GROUPS, RunShares, WorkOwner, group_share, next_turn, person_group, principal_share,
};
use interzone_protocol::vocab::{AgentId, PrincipalId, Priority};

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn owner(principal: &str, group: u8) -> WorkOwner {
    let principal = PrincipalId::new(principal).unwrap();
    WorkOwner { principal, group }
}

/// Adds runs until the shares admit no more and returns their number.
fn fill_share(shares: &mut RunShares, agent: &AgentId, owner: &WorkOwner) -> usize {
    let mut runs = 0;
    while runs < 1_000 && shares.admits(agent, owner) {
        shares.add(agent, owner);
        runs += 1;
    }
    runs
}

#[test]
fn next_turn_follows_owner_or_last_claimed() {
    assert_eq!(next_turn(0, None, Priority::Normal), 16);
    assert_eq!(next_turn(100, Some(40), Priority::High), 104);
    assert_eq!(next_turn(40, Some(100), Priority::Urgent), 101);
    assert_eq!(next_turn(i64::MAX, None, Priority::Low), i64::MAX);
}

#[test]
fn principal_share_reserves_an_eighth_from_four_slots() {
    let shares =
        [0, 1, 2, 3, 4, 8, 16, 256].map(|slots| (principal_share(slots), group_share(slots)));
    let expected = [
        (1, 1),
        (1, 1),
        (2, 2),
        (3, 3),
        (3, 3),
        (7, 6),
        (14, 13),
        (224, 196),
    ];
    assert_eq!(shares, expected);
}

#[test]
fn principal_leaves_agent_slots_to_others() {
    let (demo, alice, bob) = (agent("demo"), owner("alice", 0), owner("bob", 0));
    let mut shares = RunShares::new(1_000, [(demo.clone(), 16)]);
    assert_eq!(fill_share(&mut shares, &demo, &alice), 14);
    assert_eq!(shares.owners_at_limit(&demo).collect::<Vec<_>>(), [&alice]);
    assert!(shares.admits(&demo, &bob));
    shares.remove(&demo, &alice);
    assert!(shares.admits(&demo, &alice));
    assert_eq!(shares.owners_at_limit(&demo).count(), 0);
}

#[test]
fn principal_leaves_node_slots_to_others() {
    let (one, two, alice) = (agent("one"), agent("two"), owner("alice", 0));
    let slots = [(one.clone(), 16), (two.clone(), 16)];
    let mut shares = RunShares::new(20, slots);
    assert_eq!(fill_share(&mut shares, &one, &alice), 14);
    assert_eq!(fill_share(&mut shares, &two, &alice), 4);
    assert!(shares.admits(&two, &owner("bob", 0)));
}

#[test]
fn person_leaves_slots_to_others_of_the_principal() {
    let demo = agent("demo");
    let mut shares = RunShares::new(1_000, [(demo.clone(), 16)]);
    assert_eq!(fill_share(&mut shares, &demo, &owner("slack", 3)), 13);
    assert_eq!(fill_share(&mut shares, &demo, &owner("slack", 4)), 1);
    assert!(shares.admits(&demo, &owner("bob", 0)));
}

#[test]
fn shares_without_slots_admit_everything() {
    let (demo, alice) = (agent("demo"), owner("alice", 0));
    assert_eq!(fill_share(&mut RunShares::default(), &demo, &alice), 1_000);
}

#[test]
fn person_groups_cover_one_to_fifteen() {
    let groups: Vec<u8> = (0..1_000)
        .map(|n| person_group(&format!("T1 U{n}")))
        .collect();
    for group in 1..=PERSON_GROUPS {
        assert!(groups.contains(&group), "{group}");
    }
    assert!(
        groups
            .iter()
            .all(|group| (1..=PERSON_GROUPS).contains(group)),
        "0 is reserved for callers that name no person"
    );
    // The group is stored, so it must never change.
    assert_eq!(person_group("T1 U1"), groups[1]);
}

//! Turns, shares of run slots and groups of people.

use super::{GROUPS, RunShares, WorkOwner, group_of, group_share, next_turn, principal_share};
use interzone_protocol::vocab::{AgentId, PrincipalId, Priority};

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn owner(principal: &str, group: u8) -> WorkOwner {
    let principal = PrincipalId::new(principal).unwrap();
    WorkOwner { principal, group }
}

/// Takes what the shares admit, and answers how many runs that were.
fn fill(shares: &mut RunShares, agent: &AgentId, owner: &WorkOwner) -> usize {
    let mut runs = 0;
    while runs < 1_000 && shares.admits(agent, owner) {
        shares.add(agent, owner);
        runs += 1;
    }
    runs
}

#[test]
fn turns_follow_the_owner_or_what_was_taken_last() {
    assert_eq!(next_turn(0, None, Priority::Normal), 16);
    assert_eq!(next_turn(100, Some(40), Priority::High), 104);
    assert_eq!(next_turn(40, Some(100), Priority::Urgent), 101);
    assert_eq!(next_turn(i64::MAX, None, Priority::Low), i64::MAX);
}

#[test]
fn a_share_of_four_slots_or_more_leaves_an_eighth_and_at_least_one_to_others() {
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
fn a_principal_leaves_slots_of_an_agent_to_others() {
    let (demo, alice, bob) = (agent("demo"), owner("alice", 0), owner("bob", 0));
    let mut shares = RunShares::new(1_000, [(demo.clone(), 16)]);
    assert_eq!(fill(&mut shares, &demo, &alice), 14);
    assert_eq!(shares.at_share(&demo).collect::<Vec<_>>(), [&alice]);
    assert!(shares.admits(&demo, &bob));
    shares.remove(&demo, &alice);
    assert!(shares.admits(&demo, &alice));
    assert_eq!(shares.at_share(&demo).count(), 0);
}

#[test]
fn a_principal_leaves_slots_of_the_node_to_others() {
    let (one, two, alice) = (agent("one"), agent("two"), owner("alice", 0));
    let slots = [(one.clone(), 16), (two.clone(), 16)];
    let mut shares = RunShares::new(20, slots);
    assert_eq!(fill(&mut shares, &one, &alice), 14);
    assert_eq!(fill(&mut shares, &two, &alice), 4);
    assert!(shares.admits(&two, &owner("bob", 0)));
}

#[test]
fn a_person_leaves_slots_to_other_people_of_the_principal() {
    let demo = agent("demo");
    let mut shares = RunShares::new(1_000, [(demo.clone(), 16)]);
    assert_eq!(fill(&mut shares, &demo, &owner("slack", 3)), 13);
    assert_eq!(fill(&mut shares, &demo, &owner("slack", 4)), 1);
    assert!(shares.admits(&demo, &owner("bob", 0)));
}

#[test]
fn nothing_is_limited_without_slots() {
    let (demo, alice) = (agent("demo"), owner("alice", 0));
    assert_eq!(fill(&mut RunShares::default(), &demo, &alice), 1_000);
}

#[test]
fn people_are_divided_into_few_groups() {
    let groups: Vec<u8> = (0..1_000).map(|n| group_of(&format!("T1 U{n}"))).collect();
    for group in 1..=GROUPS {
        assert!(groups.contains(&group), "{group}");
    }
    assert!(
        groups.iter().all(|group| (1..=GROUPS).contains(group)),
        "0 is for those who name no person"
    );
    // It is stored, so it must never change.
    assert_eq!(group_of("T1 U1"), groups[1]);
}

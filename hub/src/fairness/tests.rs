//! Tests of turns, run slot shares and person groups.

use super::{PERSON_GROUPS, RunShares, WorkOwner, next_turn, person_group, principal_share};
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

/// Fills the slots of an agent with the runs of one owner after the other and returns their numbers.
fn fill_in_order(slots: usize, owners: &[WorkOwner]) -> Vec<usize> {
    let demo = agent("demo");
    let mut shares = RunShares::new(1_000_000, [(demo.clone(), slots)]);
    let owners = owners.iter();
    owners
        .map(|owner| fill_share(&mut shares, &demo, owner))
        .collect()
}

#[test]
fn caller_alone_leaves_an_eighth_of_four_or_more_slots() {
    for slots in 0..300_usize {
        let share = match slots {
            0..4 => slots.max(1),
            _ => slots - (slots / 8).max(1),
        };
        assert_eq!(principal_share(slots), share, "{slots}");
        assert_eq!(
            fill_in_order(slots, &[owner("alice", 0)]),
            [share],
            "{slots}"
        );
        let of_group = fill_in_order(slots, &[owner("slack", 3)]);
        assert_eq!(of_group, [principal_share(share)], "{slots}");
    }
}

#[test]
fn owners_that_fill_their_shares_leave_slots_to_the_next() {
    let names = ["a", "b", "c", "d"].map(|name| owner(name, 0));
    assert_eq!(fill_in_order(256, &names), [224, 28, 3, 1]);
    assert_eq!(fill_in_order(16, &names[..3]), [14, 1, 1]);
    assert_eq!(fill_in_order(8, &names[..2]), [7, 1]);
    assert_eq!(fill_in_order(4, &names[..2]), [3, 1]);
}

/// Runs of both owners end in turn, and each time the owner with fewer runs starts all it may, then the other.
#[test]
fn third_owner_finds_a_slot_beside_two_that_take_all_they_may() {
    let demo = agent("demo");
    let owners = [owner("alice", 0), owner("bob", 0)];
    for slots in 4..=64_usize {
        let mut shares = RunShares::new(1_000, [(demo.clone(), slots)]);
        let mut held = owners
            .each_ref()
            .map(|owner| fill_share(&mut shares, &demo, owner));
        for ended in [0, 1].repeat(slots) {
            shares.remove(&demo, &owners[ended]);
            held[ended] -= 1;
            let first = usize::from(held[1] < held[0]);
            for index in [first, 1 - first] {
                held[index] += fill_share(&mut shares, &demo, &owners[index]);
            }
        }
        let free = slots - held[0] - held[1];
        assert!(free >= (slots / 16).max(1), "{slots} slots: {held:?}");
    }
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
fn people_that_fill_their_shares_leave_slots_to_the_next() {
    let people = [3, 4, 5].map(|group| owner("slack", group));
    assert_eq!(
        fill_in_order(16, &people),
        [13, 1, 0],
        "the principal leaves two"
    );
    assert_eq!(fill_in_order(256, &people), [196, 25, 2]);
    // Less is free for the principal beside another one.
    let mut owners = vec![owner("bob", 0)];
    owners.extend(people);
    assert_eq!(fill_in_order(256, &owners), [224, 25, 2, 1]);
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

//! The agent card: the zone's identity and its agents' skills. All endpoints serve the same card.

use crate::state::ExecutionState;
use interzone_hub::{AgentInfo, Skill};
use interzone_protocol::Scope;
use interzone_protocol::acp::{AgentCard, Authentication, Capabilities, CardMetadata, CardSkill};
use std::collections::BTreeSet;

/// Scopes a token can have.
pub(crate) fn scopes() -> Vec<String> {
    Scope::ALL
        .iter()
        .map(|scope| scope.name().to_owned())
        .collect()
}

/// Builds the card from the current agents, with the URL of this endpoint.
pub(crate) fn agent_card(zone: &ExecutionState, endpoint: &str) -> AgentCard {
    let operator = &zone.operator;
    let skills: Vec<CardSkill> = zone
        .hub
        .agents()
        .iter()
        .flat_map(|agent| skills_of(agent.info()))
        .collect();
    AgentCard {
        name: truncate_or_default(&operator.name, 100),
        description: truncate_or_default(&operator.description, 500),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url: zone.absolute_url(endpoint),
        provider: operator.provider.clone(),
        capabilities: Some(Capabilities {
            streaming: true,
            push_notifications: true,
            file_upload: true,
            multimodal: true,
        }),
        authentication: Some(Authentication {
            schemes: vec!["oauth2".to_owned(), "bearer".to_owned()],
            scopes: scopes(),
        }),
        skills: Some(skills).filter(|skills| !skills.is_empty()),
        metadata: metadata(zone),
    }
}

/// Returns an agent's skills. An agent without any is listed as one skill, so callers can address it.
fn skills_of(info: &AgentInfo) -> Vec<CardSkill> {
    let profile = &info.profile;
    let skill = |skill: &Skill| CardSkill {
        id: slug(&skill.id),
        name: skill.name.clone(),
        description: skill.description.clone(),
        input_modes: modes(&skill.input_modes, &profile.input_modes),
        output_modes: modes(&skill.output_modes, &profile.output_modes),
    };
    if info.skills.is_empty() {
        return vec![skill(&Skill {
            id: info.id.to_string(),
            name: info.name.clone(),
            description: info.description.clone(),
            ..Skill::default()
        })];
    }
    info.skills.iter().map(skill).collect()
}

/// Returns ACP's names of the media types of a skill, which default to those of its agent, and else to any.
fn modes(of_skill: &[String], of_agent: &[String]) -> Vec<String> {
    let media_types = if of_skill.is_empty() {
        of_agent
    } else {
        of_skill
    };
    let mode_of = |media_type: &String| match media_type.split_once('/') {
        Some(("text", _)) => "text",
        Some(("image", _)) => "image",
        Some(("audio", _)) => "audio",
        _ if media_type == "application/json" => "data",
        _ => "file",
    };
    let listed: BTreeSet<&str> = media_types.iter().map(mode_of).collect();
    let all = ["text", "data", "file", "image", "audio"].into_iter();
    all.filter(|mode| listed.is_empty() || listed.contains(mode))
        .map(str::to_owned)
        .collect()
}

/// Returns the keywords of all agents and skills for discovery, if there are any.
fn metadata(zone: &ExecutionState) -> Option<CardMetadata> {
    let agents = || zone.hub.agents().iter().map(|agent| agent.info());
    let of_skills = agents()
        .flat_map(|info| &info.skills)
        .flat_map(|skill| &skill.tags);
    let tags = agents()
        .flat_map(|info| &info.profile.tags)
        .chain(of_skills);
    let tags: BTreeSet<String> = tags.cloned().collect();
    (!tags.is_empty()).then(|| CardMetadata {
        tags: tags.into_iter().collect(),
    })
}

/// Converts an id to the form that the card's schema requires.
fn slug(id: &str) -> String {
    let slug: String = id
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        })
        .collect();
    if slug.is_empty() {
        "agent".to_owned()
    } else {
        slug
    }
}

fn truncate_or_default(text: &str, max_chars: usize) -> String {
    let truncated: String = text.chars().take(max_chars).collect();
    if truncated.is_empty() {
        "Interzone".to_owned()
    } else {
        truncated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_hub::AgentProfile;
    use interzone_protocol::vocab::AgentId;

    fn text(list: &[&str]) -> Vec<String> {
        list.iter().map(|&item| item.to_owned()).collect()
    }

    #[test]
    fn card_skills_have_the_modes_of_skill_or_agent() {
        let skill = |id: &str, input_modes: &[&str]| Skill {
            id: id.to_owned(),
            input_modes: text(input_modes),
            ..Skill::default()
        };
        let mut info = AgentInfo {
            id: AgentId::new("demo").unwrap(),
            name: "Demo".to_owned(),
            description: "Demonstrates".to_owned(),
            skills: vec![skill("a", &["image/png", "image/jpeg"]), skill("b", &[])],
            concurrency: 1,
            profile: AgentProfile {
                input_modes: text(&["application/json", "text/plain"]),
                ..AgentProfile::default()
            },
        };
        let skills = skills_of(&info);
        assert_eq!(skills[0].input_modes, ["image"]);
        assert_eq!(skills[1].input_modes, ["text", "data"]);
        assert_eq!(skills[1].output_modes.len(), 5, "any");
        info.skills.clear();
        let skills = skills_of(&info);
        assert_eq!((skills[0].id.as_str(), &*skills[0].name), ("demo", "Demo"));
    }
}

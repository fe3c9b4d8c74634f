//! The card that tells who the zone is and what its agents can do: the same by whichever way it is asked
//! for.

use crate::zone::Zone;
use interzone_hub::AgentInfo;
use interzone_protocol::acp::{AgentCard, Authentication, Capabilities, CardSkill, Scope};

/// The scopes that tokens can have.
pub(crate) fn scopes() -> Vec<String> {
    Scope::ALL
        .iter()
        .map(|scope| scope.name().to_owned())
        .collect()
}

/// The card, as it is at this moment, for those who call by this door.
pub(crate) fn of(zone: &Zone, door: &str) -> AgentCard {
    let operator = &zone.operator;
    let skills: Vec<CardSkill> = zone
        .hub
        .agents()
        .iter()
        .flat_map(|agent| skills_of(agent.info()))
        .collect();
    AgentCard {
        name: cut(&operator.name, 100),
        description: cut(&operator.description, 500),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url: zone.address(door),
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
        metadata: None,
    }
}

/// An agent that names no skills is one itself, so that callers find whom to assign work to.
fn skills_of(info: &AgentInfo) -> Vec<CardSkill> {
    let skill = |id: &str, name: &str, description: &str| CardSkill {
        id: slug(id),
        name: name.to_owned(),
        description: description.to_owned(),
        input_modes: modes(),
        output_modes: modes(),
    };
    if info.skills.is_empty() {
        return vec![skill(info.id.as_str(), &info.name, &info.description)];
    }
    info.skills
        .iter()
        .map(|known| skill(&known.id, &known.name, &known.description))
        .collect()
}

fn modes() -> Vec<String> {
    ["text", "data", "file", "image", "audio"]
        .map(str::to_owned)
        .to_vec()
}

/// An id as the card's schema wants it.
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

fn cut(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most).collect();
    if cut.is_empty() {
        "Interzone".to_owned()
    } else {
        cut
    }
}

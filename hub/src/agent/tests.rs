//! Routing: who gets the work.

use super::*;

struct Idle(AgentInfo, bool);

#[async_trait]
impl Agent for Idle {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    fn is_available(&self) -> bool {
        self.1
    }

    async fn run(&self, _: Turn, _: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        Ok(Outcome::Completed {
            message: None,
            direct: false,
        })
    }
}

fn agent(id: &str, skill: &str, available: bool) -> Arc<dyn Agent> {
    let text = |text: &str| text.to_owned();
    let skill = Skill {
        id: text(skill),
        name: text(skill),
        description: text(skill),
    };
    let info = AgentInfo {
        id: AgentId::new(id).unwrap(),
        name: text(id),
        description: text(id),
        skills: vec![skill],
        concurrency: 1,
    };
    Arc::new(Idle(info, available))
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add(agent("demo", "talk", true));
    registry.add(agent("files", "csv", true));
    registry.add(agent("asleep", "csv", false));
    registry
        .route_channel("C1", &AgentId::new("files").unwrap())
        .unwrap();
    registry
}

fn chosen(assign_to: &str, skill: &str, tenant: &str, channel: &str) -> String {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let route = Route {
        assign_to: given(assign_to),
        skill: given(skill),
        tenant: given(tenant),
        channel: given(channel),
    };
    registry()
        .route(&route)
        .map_or_else(|error| format!("{error:?}"), |id| id.to_string())
}

#[test]
fn the_most_particular_wish_decides() {
    assert_eq!(chosen("", "", "", ""), "demo");
    assert_eq!(chosen("", "", "", "C1"), "files");
    assert_eq!(chosen("", "", "", "C2"), "demo");
    assert_eq!(chosen("", "csv", "", "C2"), "files");
    assert_eq!(chosen("demo", "csv", "", "C1"), "demo");
    assert_eq!(chosen("", "", "files", ""), "files");
}

#[test]
fn a_wish_that_cannot_be_met_is_not_met_by_another() {
    assert_eq!(chosen("nobody", "", "", ""), "AgentUnavailable");
    assert_eq!(chosen("asleep", "", "", ""), "AgentUnavailable");
    assert_eq!(chosen("", "swim", "", "C1"), "AgentUnavailable");
    assert!(matches!(
        Registry::default().route(&Route::default()),
        Err(HubError::AgentUnavailable)
    ));
    let unknown = AgentId::new("nobody").unwrap();
    assert!(registry().set_default(&unknown).is_err());
    assert!(registry().route_channel("C1", &unknown).is_err());
}

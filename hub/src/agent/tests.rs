//! Tests of agent routing.

use super::*;

struct IdleAgent(AgentInfo, bool);

#[async_trait]
impl Agent for IdleAgent {
    fn info(&self) -> &AgentInfo {
        &self.0
    }

    fn is_available(&self) -> bool {
        self.1
    }

    async fn run(&self, _: Turn, _: Arc<dyn TurnOutput>) -> Result<TurnOutcome, AgentError> {
        Ok(TurnOutcome::Completed {
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
        ..Skill::default()
    };
    let info = AgentInfo {
        id: AgentId::new(id).unwrap(),
        name: text(id),
        description: text(id),
        skills: vec![skill],
        concurrency: 1,
        profile: AgentProfile::default(),
    };
    Arc::new(IdleAgent(info, available))
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add(agent("demo", "chat", true));
    registry.add(agent("files", "csv", true));
    registry.add(agent("unavailable", "csv", false));
    registry
        .route_channel("C1", &AgentId::new("files").unwrap())
        .unwrap();
    registry
}

fn route_result(assign_to: &str, skill: &str, tenant: &str, channel: &str) -> String {
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let route = Route {
        assign_to: non_empty(assign_to),
        skill: non_empty(skill),
        tenant: non_empty(tenant),
        channel: non_empty(channel),
    };
    registry()
        .route(&route)
        .map_or_else(|error| format!("{error:?}"), |id| id.to_string())
}

#[test]
fn most_specific_criterion_selects_the_agent() {
    assert_eq!(route_result("", "", "", ""), "demo");
    assert_eq!(route_result("", "", "", "C1"), "files");
    assert_eq!(route_result("", "", "", "C2"), "demo");
    assert_eq!(route_result("", "csv", "", "C2"), "files");
    assert_eq!(route_result("demo", "csv", "", "C1"), "demo");
    assert_eq!(route_result("", "", "files", ""), "files");
}

#[test]
fn unavailable_agent_is_not_replaced_by_another() {
    assert_eq!(route_result("missing", "", "", ""), "AgentUnavailable");
    assert_eq!(route_result("unavailable", "", "", ""), "AgentUnavailable");
    assert_eq!(route_result("", "swim", "", "C1"), "AgentUnavailable");
    assert!(matches!(
        Registry::default().route(&Route::default()),
        Err(HubError::AgentUnavailable)
    ));
    let unknown = AgentId::new("missing").unwrap();
    assert!(registry().set_default(&unknown).is_err());
    assert!(registry().route_channel("C1", &unknown).is_err());
}

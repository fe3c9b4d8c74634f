//! Methods of A2A and the wire formats that their names select.

/// JSON shape of the objects in a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// 1.0, both bindings: ProtoJSON of the 1.0 proto.
    V1,
    /// 0.3 over JSON-RPC: objects with a `kind`.
    V03,
    /// 0.3 over REST: ProtoJSON of the 0.3 proto.
    RestV03,
}

impl WireFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::V1, Self::V03, Self::RestV03];
}

/// A method of A2A.
///
/// ```
/// use interzone_protocol::a2a::{A2aMethod, WireFormat};
///
/// assert_eq!(A2aMethod::from_name("GetTask"), Some((A2aMethod::GetTask, WireFormat::V1)));
/// assert_eq!(A2aMethod::from_name("tasks/get"), Some((A2aMethod::GetTask, WireFormat::V03)));
/// assert_eq!(A2aMethod::from_name("tasks/list"), None);
/// assert!(A2aMethod::SendStreamingMessage.is_streaming());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum A2aMethod {
    /// Sends a message, answered with a task or a message.
    SendMessage,
    /// Sends a message, answered with a stream.
    SendStreamingMessage,
    /// Reads a task.
    GetTask,
    /// Lists tasks; 1.0 only.
    ListTasks,
    /// Cancels a task.
    CancelTask,
    /// Streams the events of a task.
    SubscribeToTask,
    /// Creates or replaces a push configuration of a task.
    CreateTaskPushNotificationConfig,
    /// Reads a push configuration.
    GetTaskPushNotificationConfig,
    /// Lists the push configurations of a task.
    ListTaskPushNotificationConfigs,
    /// Deletes a push configuration.
    DeleteTaskPushNotificationConfig,
    /// Reads the agent card for authenticated callers.
    GetExtendedAgentCard,
}

impl A2aMethod {
    /// All methods.
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::CreateTaskPushNotificationConfig,
        Self::GetTaskPushNotificationConfig,
        Self::ListTaskPushNotificationConfigs,
        Self::DeleteTaskPushNotificationConfig,
        Self::GetExtendedAgentCard,
    ];

    /// Names in 1.0 and 0.3.
    const fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::SendMessage => ("SendMessage", Some("message/send")),
            Self::SendStreamingMessage => ("SendStreamingMessage", Some("message/stream")),
            Self::GetTask => ("GetTask", Some("tasks/get")),
            Self::ListTasks => ("ListTasks", None),
            Self::CancelTask => ("CancelTask", Some("tasks/cancel")),
            Self::SubscribeToTask => ("SubscribeToTask", Some("tasks/resubscribe")),
            Self::CreateTaskPushNotificationConfig => (
                "CreateTaskPushNotificationConfig",
                Some("tasks/pushNotificationConfig/set"),
            ),
            Self::GetTaskPushNotificationConfig => (
                "GetTaskPushNotificationConfig",
                Some("tasks/pushNotificationConfig/get"),
            ),
            Self::ListTaskPushNotificationConfigs => (
                "ListTaskPushNotificationConfigs",
                Some("tasks/pushNotificationConfig/list"),
            ),
            Self::DeleteTaskPushNotificationConfig => (
                "DeleteTaskPushNotificationConfig",
                Some("tasks/pushNotificationConfig/delete"),
            ),
            Self::GetExtendedAgentCard => (
                "GetExtendedAgentCard",
                Some("agent/getAuthenticatedExtendedCard"),
            ),
        }
    }

    /// The name in 1.0.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// The name in 0.3, which has no list of tasks.
    pub const fn name_v03(self) -> Option<&'static str> {
        self.names().1
    }

    /// Finds a method by its name of either version, with the format that the name selects.
    pub fn from_name(name: &str) -> Option<(Self, WireFormat)> {
        Self::ALL.into_iter().find_map(|method| {
            if method.name() == name {
                Some((method, WireFormat::V1))
            } else if method.name_v03() == Some(name) {
                Some((method, WireFormat::V03))
            } else {
                None
            }
        })
    }

    /// Returns true if the response is a stream of events.
    pub const fn is_streaming(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    /// Returns true if the method exists only where the card declares push notifications.
    pub const fn is_push(self) -> bool {
        matches!(
            self,
            Self::CreateTaskPushNotificationConfig
                | Self::GetTaskPushNotificationConfig
                | Self::ListTaskPushNotificationConfigs
                | Self::DeleteTaskPushNotificationConfig
        )
    }
}

//! Initial content of a workspace. The ids never change, so that a configuration can refer to them.

use super::channels::{ChannelKind, PlaygroundChannel};
use super::users::PlaygroundUser;

/// Workspace id.
pub const TEAM: &str = "T0PLAY";
/// Workspace name.
pub const TEAM_NAME: &str = "Playground";
/// App id.
pub const APP: &str = "A0PLAY";
/// Bot id, as the author of messages.
pub const BOT: &str = "B0INTERZONE";
/// Bot user id, for mentions.
pub const BOT_USER: &str = "U0INTERZONE";
/// User with Japanese locale.
pub const HANA: &str = "U0HANA";
/// User with English locale.
pub const ALEX: &str = "U0ALEX";
/// User who should be on no allow list.
pub const MALLORY: &str = "U0MALLORY";
/// Deactivated user.
pub const GONE: &str = "U0GONE";
/// Channel with all users and the bot.
pub const GENERAL: &str = "C0GENERAL";
/// Channel with all users, without the bot.
pub const LOBBY: &str = "C0LOBBY";
/// Private channel: Hana, Alex and the bot.
pub const PLANS: &str = "C0PLANS";
/// Private channel: Mallory alone, so the bot cannot see it.
pub const SECRET: &str = "C0SECRET";
/// Archived channel.
pub const ATTIC: &str = "C0ATTIC";
/// Hana's DM with the bot.
pub const DM_HANA: &str = "D0HANA";
/// Alex's DM with the bot.
pub const DM_ALEX: &str = "D0ALEX";
/// Mallory's DM with the bot.
pub const DM_MALLORY: &str = "D0MALLORY";

/// Locales that users may choose.
pub(crate) const LOCALES: [&str; 2] = ["ja-JP", "en-US"];

pub(crate) fn users() -> Vec<PlaygroundUser> {
    let user = |id: &str, name: &str, real_name: &str, locale: &str| PlaygroundUser {
        id: id.to_owned(),
        name: name.to_owned(),
        display_name: real_name.split(' ').next().unwrap_or(name).to_owned(),
        real_name: real_name.to_owned(),
        locale: locale.to_owned(),
        deleted: id == GONE,
        is_bot: id == BOT_USER,
        is_restricted: false,
    };
    vec![
        user(HANA, "hana", "花子 山田", "ja-JP"),
        user(ALEX, "alex", "Alex Reed", "en-US"),
        user(MALLORY, "mallory", "Mallory Stone", "en-US"),
        user(GONE, "gone", "Robin Gone", "en-US"),
        user(BOT_USER, "interzone", "Interzone", "en-US"),
    ]
}

pub(crate) fn channels() -> Vec<PlaygroundChannel> {
    let channel = |id: &str, name: &str, kind: ChannelKind, members: &[&str]| PlaygroundChannel {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
        members: members.iter().map(|member| (*member).to_owned()).collect(),
        archived: id == ATTIC,
    };
    vec![
        channel(
            GENERAL,
            "general",
            ChannelKind::Public,
            &[HANA, ALEX, MALLORY, BOT_USER],
        ),
        channel(LOBBY, "lobby", ChannelKind::Public, &[HANA, ALEX, MALLORY]),
        channel(
            PLANS,
            "plans",
            ChannelKind::Private,
            &[HANA, ALEX, BOT_USER],
        ),
        channel(SECRET, "secret", ChannelKind::Private, &[MALLORY]),
        channel(ATTIC, "attic", ChannelKind::Public, &[HANA, BOT_USER]),
        channel(DM_HANA, "hana", ChannelKind::Im, &[HANA, BOT_USER]),
        channel(DM_ALEX, "alex", ChannelKind::Im, &[ALEX, BOT_USER]),
        channel(DM_MALLORY, "mallory", ChannelKind::Im, &[MALLORY, BOT_USER]),
    ]
}

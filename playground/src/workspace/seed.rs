//! Who and what is in a new workspace. The ids never change, so that a configuration can name them.

use super::channels::{Channel, Kind};
use super::people::User;

/// The workspace.
pub const TEAM: &str = "T0PLAY";
/// Its name.
pub const TEAM_NAME: &str = "Playground";
/// The app.
pub const APP: &str = "A0PLAY";
/// The app's bot, as the author of messages.
pub const BOT: &str = "B0INTERZONE";
/// The app's bot, as somebody who can be mentioned.
pub const BOT_USER: &str = "U0INTERZONE";
/// Speaks Japanese.
pub const HANA: &str = "U0HANA";
/// Speaks English.
pub const ALEX: &str = "U0ALEX";
/// Is meant to be on nobody's list.
pub const MALLORY: &str = "U0MALLORY";
/// Has left.
pub const GONE: &str = "U0GONE";
/// Everybody is in it, and the bot.
pub const GENERAL: &str = "C0GENERAL";
/// Everybody is in it, but not the bot.
pub const LOBBY: &str = "C0LOBBY";
/// Private: Hana, Alex and the bot.
pub const PLANS: &str = "C0PLANS";
/// Private: Mallory alone, so the bot cannot know of it.
pub const SECRET: &str = "C0SECRET";
/// Nobody may post any more.
pub const ATTIC: &str = "C0ATTIC";
/// Hana's DM with the bot.
pub const DM_HANA: &str = "D0HANA";
/// Alex's DM with the bot.
pub const DM_ALEX: &str = "D0ALEX";
/// Mallory's DM with the bot.
pub const DM_MALLORY: &str = "D0MALLORY";

/// The languages that people here may choose.
pub(crate) const LOCALES: [&str; 2] = ["ja-JP", "en-US"];

pub(crate) fn users() -> Vec<User> {
    let user = |id: &str, name: &str, real_name: &str, locale: &str| User {
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

pub(crate) fn channels() -> Vec<Channel> {
    let channel = |id: &str, name: &str, kind: Kind, members: &[&str]| Channel {
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
            Kind::Public,
            &[HANA, ALEX, MALLORY, BOT_USER],
        ),
        channel(LOBBY, "lobby", Kind::Public, &[HANA, ALEX, MALLORY]),
        channel(PLANS, "plans", Kind::Private, &[HANA, ALEX, BOT_USER]),
        channel(SECRET, "secret", Kind::Private, &[MALLORY]),
        channel(ATTIC, "attic", Kind::Public, &[HANA, BOT_USER]),
        channel(DM_HANA, "hana", Kind::Im, &[HANA, BOT_USER]),
        channel(DM_ALEX, "alex", Kind::Im, &[ALEX, BOT_USER]),
        channel(DM_MALLORY, "mallory", Kind::Im, &[MALLORY, BOT_USER]),
    ]
}

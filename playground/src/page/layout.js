// Everything around the messages: channels, users, titles, and all static texts.

import { icon } from "/icons.js";
import { element } from "/message.js";
import { channelName, userName, workspace } from "/state.js";
import { currentLanguage, translate } from "/texts.js";
import { isAllowed } from "/welcome.js";

const byId = (id) => document.getElementById(id);

/** Renders users, titles and texts for the user and channel of the view. */
export function renderLayout(view) {
  renderUsers(view.user);
  const channel = workspace.channels.get(view.channel);
  const title = channelTitle(channel);
  renderTexts(title);
  byId("title").textContent = title;
  byId("topic").textContent = channelTopic(channel);
  byId("thread-channel").textContent = translate("threadIn", title);
  document.title = `${title} · Playground`;
}

/** Renders the user's channels with unread counts. `onSelect` is called with the selected channel. */
export function renderChannels(view, channels, unread, onSelect) {
  const lists = { channels: byId("channels"), dms: byId("dms") };
  for (const list of Object.values(lists)) list.replaceChildren();
  for (const channel of channels) {
    const isDirect = channel.kind === "im";
    const isPrivate = channel.kind === "group";
    const symbol = isPrivate ? icon("lock") : isDirect ? icon("logo") : element("span", { className: "hash", text: "#" });
    symbol.setAttribute("aria-hidden", "true");
    const name = isDirect ? userName(workspace.bot) : channel.name;
    const button = element("button", {}, symbol, element("span", { text: name }));
    const count = unread.get(channel.id);
    if (count) {
      button.className = "unread";
      button.append(element("span", { className: "count", text: String(count) }),
        element("span", { className: "visually-hidden", text: translate("unread") }));
    }
    if (channel.id === view.channel) button.setAttribute("aria-current", "page");
    button.onclick = () => onSelect(channel.id);
    lists[isDirect ? "dms" : "channels"].append(element("li", {}, button));
  }
}

/** Sets all static texts of the page. */
export function renderTexts(title = "") {
  document.documentElement.lang = currentLanguage();
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = translate(node.dataset.text);
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", translate(node.dataset.label));
    if (node.tagName === "BUTTON") node.title = translate(node.dataset.label);
  }
  for (const [id, text] of [["main-input", translate("messageTo", title)], ["thread-input", translate("reply")]]) {
    byId(id).placeholder = text;
    byId(id).setAttribute("aria-label", text);
  }
}

/** Describes the members of a channel. */
function channelTopic(channel) {
  if (!channel) return "";
  if (channel.kind === "im") return translate("directTopic");
  const count = channel.members.filter((member) => member !== workspace.bot).length;
  const members = translate(channel.kind === "group" ? "privateMembers" : "members", count);
  const hasBot = channel.members.includes(workspace.bot);
  return `${members} · ${hasBot ? userName(workspace.bot) : translate("withoutBot")}`;
}

function channelTitle(channel) {
  if (!channel) return "";
  return channel.kind === "im" ? userName(workspace.bot) : `#${channelName(channel.id)}`;
}

function renderUsers(selected) {
  const users = [...workspace.users.values()].filter((user) => !user.is_bot && !user.deleted);
  const makeGroup = (labelKey, members) => {
    const group = element("optgroup", {}, ...members.map((user) => {
      const option = element("option", { text: user.display_name });
      option.value = user.id;
      option.selected = user.id === selected;
      return option;
    }));
    group.label = translate(labelKey);
    return group;
  };
  byId("user").replaceChildren(
    makeGroup("allowedUsers", users.filter(isAllowed)),
    makeGroup("rejectedUsers", users.filter((user) => !isAllowed(user))),
  );
  byId("language").value = workspace.users.get(selected)?.locale ?? "";
}

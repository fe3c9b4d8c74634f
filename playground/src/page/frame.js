// The frame around the messages: channels, users, titles, and all static texts.

import { element } from "/draw.js";
import { icon } from "/icons.js";
import { channelName, userName, world } from "/state.js";
import { mayAsk } from "/welcome.js";
import { spoken, word } from "/words.js";

const find = (id) => document.getElementById(id);

/** Draws the frame for the current user and channel. */
export function drawFrame(here) {
  drawUsers(here.user);
  const channel = world.channels.get(here.channel);
  drawWords(title(channel));
  find("title").textContent = title(channel);
  find("topic").textContent = topic(channel);
  find("thread-place").textContent = word("inPlace", title(channel));
  document.title = `${title(channel)} · Playground`;
}

/** Draws the user's channels with unread counts. `choose` is called with the selected channel. */
export function drawChannels(here, mine, unread, choose) {
  const lists = { channels: find("channels"), dms: find("dms") };
  for (const list of Object.values(lists)) list.replaceChildren();
  for (const channel of mine) {
    const dm = channel.kind === "im";
    const secret = channel.kind === "group";
    const mark = secret ? icon("lock") : dm ? icon("mark") : element("span", { className: "sharp", text: "#" });
    mark.setAttribute("aria-hidden", "true");
    const name = dm ? userName(world.bot) : channel.name;
    const button = element("button", {}, mark, element("span", { text: name }));
    const count = unread.get(channel.id);
    if (count) {
      button.className = "unread";
      button.append(element("span", { className: "count", text: String(count) }),
        element("span", { className: "hidden", text: word("unread") }));
    }
    if (channel.id === here.channel) button.setAttribute("aria-current", "page");
    button.onclick = () => choose(channel.id);
    lists[dm ? "dms" : "channels"].append(element("li", {}, button));
  }
}

/** Sets all static texts of the page. */
export function drawWords(place = "") {
  document.documentElement.lang = spoken();
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = word(node.dataset.word);
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", word(node.dataset.label));
    if (node.tagName === "BUTTON") node.title = word(node.dataset.label);
  }
  for (const [id, text] of [["main-input", word("write", place)], ["thread-input", word("reply")]]) {
    find(id).placeholder = text;
    find(id).setAttribute("aria-label", text);
  }
}

/** Describes the members of a channel. */
function topic(channel) {
  if (!channel) return "";
  if (channel.kind === "im") return word("withBot");
  const people = channel.members.filter((one) => one !== world.bot).length;
  const who = word(channel.kind === "group" ? "privateTo" : "members", people);
  return `${who} · ${channel.members.includes(world.bot) ? userName(world.bot) : word("withoutBot")}`;
}

function title(channel) {
  if (!channel) return "";
  return channel.kind === "im" ? userName(world.bot) : `#${channelName(channel.id)}`;
}

function drawUsers(chosen) {
  const people = [...world.users.values()].filter((user) => !user.is_bot && !user.deleted);
  const group = (name, some) => {
    const made = element("optgroup", {}, ...some.map((user) => {
      const option = element("option", { text: user.display_name });
      option.value = user.id;
      option.selected = user.id === chosen;
      return option;
    }));
    made.label = word(name);
    return made;
  };
  find("user").replaceChildren(
    group("mayAsk", people.filter(mayAsk)),
    group("mayNot", people.filter((user) => !mayAsk(user))),
  );
  find("language").value = world.users.get(chosen)?.locale ?? "";
}

// Welcome view of an empty channel: its purpose, and suggested first messages.

import { icon } from "/icons.js";
import { element } from "/message.js";
import { userName, workspace } from "/state.js";
import { translate } from "/texts.js";

/** Suggested messages: key of the title, and text. */
const SUGGESTIONS = [
  ["ideaHello", () => `echo ${translate("hello")}`],
  ["ideaStream", () => "stream 60"],
  ["ideaFile", () => "file csv name,amount"],
  ["ideaStop", () => "wait 30"],
  ["ideaHelp", () => "help"],
];

/** The workspace has one user who should be on no allow list. Only the zone has the real list. */
export function isAllowed(user) {
  return user.name !== "mallory";
}

function card(titleKey, content, onClick) {
  const button = element("button", {}, element("b", { text: translate(titleKey) }), content);
  button.type = "button";
  button.onclick = onClick;
  return element("li", {}, button);
}

function labelWithIcon(iconName, text) {
  return element("span", { className: "label" }, icon(iconName), text);
}

/** Renders the welcome view. `actions` has those of the cards: `send`, `attach` and `openDirectMessage`. */
export function renderWelcome(user, channel, actions) {
  if (!user || !channel) return;
  const isDirect = channel.kind === "im";
  const hasBot = channel.members.includes(workspace.bot);
  const allowed = isAllowed(user);
  const name = userName(user.id);
  const [title, text] = !hasBot
    ? [translate("withoutBotTitle"), translate("withoutBotText")]
    : !allowed
      ? [translate("notAllowedTitle", name), translate("notAllowedText", name)]
      : [translate("welcomeTitle"), (isDirect ? "" : translate("mentionHint")) + translate("welcomeText")];
  document.getElementById("welcome-title").textContent = title;
  document.getElementById("welcome-text").textContent = text;
  const suggestions = SUGGESTIONS.slice(0, allowed ? SUGGESTIONS.length : 1).map(([titleKey, makeText]) => {
    const message = isDirect ? makeText() : `@interzone ${makeText()}`;
    return card(titleKey, element("code", { text: message }), () => actions.send(message));
  });
  const attach = card("ideaUpload", labelWithIcon("clip", translate("attach")), actions.attach);
  const direct = card("ideaDirect", labelWithIcon("logo", userName(workspace.bot)), actions.openDirectMessage);
  const cards = !hasBot ? [direct] : allowed ? [...suggestions, attach] : suggestions;
  document.getElementById("ideas").replaceChildren(...cards);
}

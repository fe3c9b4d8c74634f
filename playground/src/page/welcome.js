// Welcome view of an empty channel: its purpose, and suggested first messages.

import { element } from "/draw.js";
import { icon } from "/icons.js";
import { userName, world } from "/state.js";
import { word } from "/words.js";

/** Suggested messages: label and text. */
const SAYINGS = [
  ["ideaHello", () => `echo ${word("hello")}`],
  ["ideaStream", () => "stream 60"],
  ["ideaFile", () => "file csv name,amount"],
  ["ideaStop", () => "wait 30"],
  ["ideaHelp", () => "help"],
];

/** The workspace has one user who should be on no allow list; only the zone knows the real list. */
export function mayAsk(user) {
  return user.name !== "mallory";
}

function card(label, shown, act) {
  const button = element("button", {}, element("b", { text: word(label) }), shown);
  button.type = "button";
  button.onclick = act;
  return element("li", {}, button);
}

function way(picture, text) {
  return element("span", { className: "way" }, icon(picture), text);
}

/** Draws the welcome view. `start` has the actions of the cards: `say`, `attach` and `direct`. */
export function drawWelcome(user, channel, start) {
  if (!user || !channel) return;
  const dm = channel.kind === "im";
  const alone = !channel.members.includes(world.bot);
  const refused = !mayAsk(user);
  const name = userName(user.id);
  const [title, text] = alone
    ? [word("welcomeAlone"), word("aloneText")]
    : refused
      ? [word("welcomeRefused", name), word("refusedText", name)]
      : [word("welcome"), dm ? word("welcomeText") : word("welcomeChannel") + word("welcomeText")];
  document.getElementById("welcome-title").textContent = title;
  document.getElementById("welcome-text").textContent = text;
  const sayings = SAYINGS.slice(0, refused ? 1 : SAYINGS.length).map(([label, make]) => {
    const said = dm ? make() : `@interzone ${make()}`;
    return card(label, element("code", { text: said }), () => start.say(said));
  });
  const attach = card("ideaUpload", way("clip", word("ideaUploadText")), start.attach);
  const direct = card("ideaDirect", way("mark", userName(world.bot)), start.direct);
  const cards = alone ? [direct] : refused ? sayings : [...sayings, attach];
  document.getElementById("ideas").replaceChildren(...cards);
}

// The composer: text, files, Enter and input methods. The caller decides where a message is sent.

import { element, size } from "/draw.js";
import { word } from "/words.js";

/** Makes a form a composer. `send(text, files)` sends; its error is shown. */
export function composer(form, send, failed) {
  const input = form.querySelector("textarea");
  const picked = [];
  const list = form.querySelector(".picked");
  const chooser = form.querySelector(".file");
  const button = form.querySelector(".send");

  const refresh = () => {
    input.style.height = "auto";
    // A hidden element has no height yet.
    if (input.scrollHeight) input.style.height = `${input.scrollHeight}px`;
    button.disabled = !input.value.trim() && !picked.length;
    list.hidden = !picked.length;
    list.replaceChildren(...picked.map((file, at) => {
      const remove = element("button", { text: "✕", label: word("remove", file.name) });
      remove.type = "button";
      remove.onclick = () => {
        picked.splice(at, 1);
        refresh();
        input.focus();
      };
      const name = element("span", { className: "name", text: file.name });
      return element("li", {}, name, element("small", { text: size(file.size) }), remove);
    }));
  };
  const add = (files) => {
    picked.push(...files);
    refresh();
  };
  input.addEventListener("input", refresh);
  input.addEventListener("keydown", (event) => {
    // Enter that confirms an input method's candidate does not send.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  input.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) {
      event.preventDefault();
      add(files);
    }
  });
  const pane = form.closest(".pane");
  pane.addEventListener("dragover", (event) => {
    event.preventDefault();
    form.classList.add("over");
  });
  pane.addEventListener("dragleave", () => form.classList.remove("over"));
  pane.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    add([...event.dataTransfer.files]);
    input.focus();
  });
  form.querySelector(".attach").onclick = () => chooser.click();
  chooser.onchange = () => {
    add([...chooser.files]);
    chooser.value = "";
    input.focus();
  };
  form.querySelector(".mention").onclick = () => {
    input.setRangeText("@interzone ", input.selectionStart, input.selectionEnd, "end");
    refresh();
    input.focus();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const files = picked.splice(0);
    if (!text && !files.length) return;
    input.value = "";
    refresh();
    try {
      await send(text, files);
    } catch (error) {
      // Restores the text and files if sending failed.
      if (!input.value) input.value = text;
      picked.unshift(...files);
      refresh();
      failed(error);
    }
  });
  refresh();
}

// The box in which a person writes: text, files, Enter and input methods. What is sent where is told to it.

import { element } from "/draw.js";
import { word } from "/words.js";

/** Makes a form a composer. `send(text, files)` sends, and fails with an error that is shown. */
export function composer(form, send, failed) {
  const input = form.querySelector("textarea");
  const picked = [];
  const list = form.querySelector(".picked");
  const chooser = form.querySelector(".file");
  const button = form.querySelector(".send");

  const refresh = () => {
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight}px`;
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
      return element("li", {}, element("span", { text: file.name }), remove);
    }));
  };
  const add = (files) => {
    picked.push(...files);
    refresh();
  };
  input.addEventListener("input", refresh);
  input.addEventListener("keydown", (event) => {
    // Enter that chooses a word of an input method is not meant for us.
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
  form.addEventListener("dragover", (event) => {
    event.preventDefault();
    form.classList.add("over");
  });
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    add([...event.dataTransfer.files]);
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
      if (!input.value) input.value = text;
      refresh();
      failed(error);
    }
  });
  refresh();
}

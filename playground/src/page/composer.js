// The composer: text, files, Enter and input methods. The caller decides where a message is sent.

import { element, formatSize } from "/message.js";
import { translate } from "/texts.js";

/** Makes a form a composer. `send(text, files)` sends a message; `onError` is called if that fails. */
export function initComposer(form, send, onError) {
  const input = form.querySelector("textarea");
  const picked = [];
  const list = form.querySelector(".picked");
  const fileInput = form.querySelector(".file");
  const sendButton = form.querySelector(".send");

  const update = () => {
    input.style.height = "auto";
    // A hidden element has no height yet.
    if (input.scrollHeight) input.style.height = `${input.scrollHeight}px`;
    sendButton.disabled = !input.value.trim() && !picked.length;
    list.hidden = !picked.length;
    list.replaceChildren(...picked.map((file, index) => {
      const remove = element("button", { text: "✕", label: translate("remove", file.name) });
      remove.type = "button";
      remove.onclick = () => {
        picked.splice(index, 1);
        update();
        input.focus();
      };
      const name = element("span", { className: "name", text: file.name });
      return element("li", {}, name, element("small", { text: formatSize(file.size) }), remove);
    }));
  };
  const addFiles = (files) => {
    picked.push(...files);
    update();
  };
  input.addEventListener("input", update);
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
      addFiles(files);
    }
  });
  const pane = form.closest(".pane");
  pane.addEventListener("dragover", (event) => {
    event.preventDefault();
    form.classList.add("dragover");
  });
  pane.addEventListener("dragleave", () => form.classList.remove("dragover"));
  pane.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("dragover");
    addFiles([...event.dataTransfer.files]);
    input.focus();
  });
  form.querySelector(".attach").onclick = () => fileInput.click();
  fileInput.onchange = () => {
    addFiles([...fileInput.files]);
    fileInput.value = "";
    input.focus();
  };
  form.querySelector(".mention").onclick = () => {
    input.setRangeText("@interzone ", input.selectionStart, input.selectionEnd, "end");
    update();
    input.focus();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const files = picked.splice(0);
    if (!text && !files.length) return;
    input.value = "";
    update();
    try {
      await send(text, files);
    } catch (error) {
      // Restores the text and files if sending failed.
      if (!input.value) input.value = text;
      picked.unshift(...files);
      update();
      onError(error);
    }
  });
  update();
}

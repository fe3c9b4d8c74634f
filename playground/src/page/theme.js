// Applies the stored theme before anything is drawn, to avoid flicker.

try {
  const chosen = localStorage.getItem("playground.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be unavailable in private windows; the system's theme is used then.
}

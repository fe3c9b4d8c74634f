// Applies the stored theme before anything is drawn, to avoid flicker.

try {
  const stored = localStorage.getItem("playground.theme");
  if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
} catch {
  // Storage may be unavailable in private windows; the system's theme is used then.
}

// Dark or light, as it was chosen here before: known before anything is drawn, so that nothing flashes.

try {
  const chosen = localStorage.getItem("playground.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Private windows may keep nothing; the system's choice is good too.
}

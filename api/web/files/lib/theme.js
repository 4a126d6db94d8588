// Runs before the page is drawn: the colours that were chosen last, else those of the system.
try {
  const theme = localStorage.getItem("weir.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* a browser that keeps nothing has the system's colours */ }

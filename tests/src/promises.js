// What holds in every state of the page. Returns what does not.
const broken = [];

if (document.documentElement.scrollWidth > innerWidth) {
  broken.push(`scrolls sideways: ${document.documentElement.scrollWidth} > ${innerWidth}`);
}

for (const control of document.querySelectorAll("button, input, a")) {
  const name = control.getAttribute("aria-label") || control.labels?.[0]?.textContent || control.textContent;
  if (!name.trim()) broken.push(`no label: ${control.outerHTML}`);
}

// WCAG 2, success criterion 1.4.3 (AA): text has a contrast of 4.5 to what is behind it.
const channels = (color) => color.match(/[\d.]+/g).map(Number);
const luminance = (color) => {
  const [red, green, blue] = channels(color).map((value) =>
    value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (channels(color)[3] !== 0) return color;
  }
  return "rgb(255, 255, 255)";
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.textContent.trim() || !element.checkVisibility() || element.disabled) continue;
  const [light, dark] = [getComputedStyle(element).color, behind(element)].map(luminance).sort((a, b) => b - a);
  const contrast = (light + 0.05) / (dark + 0.05);
  if (contrast < 4.5) broken.push(`contrast ${contrast.toFixed(2)}: ${texts.currentNode.textContent.trim()}`);
}

return { width: innerWidth, scheme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light", broken };

// Texts on the page whose contrast with their ground is below 4.5 : 1 (WCAG 2, AA; 3 : 1 for large ones).
() => {
  const parse = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, ground) => ({
    r: top.a * top.r + (1 - top.a) * ground.r,
    g: top.a * top.g + (1 - top.a) * ground.g,
    b: top.a * top.b + (1 - top.a) * ground.b,
    a: 1,
  });
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const groundOf = (element) => {
    const layers = [];
    for (let place = element; place; place = place.parentElement) {
      const color = parse(getComputedStyle(place).backgroundColor);
      layers.push(color);
      if (color.a === 1) break;
    }
    return layers.reverse().reduce((ground, layer) => over(layer, ground), { r: 255, g: 255, b: 255, a: 1 });
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!node.textContent.trim() || style.visibility === "hidden" || !box.width || box.height < 2) continue;
    if (element.closest("script, style, svg, [disabled], .announcement")) continue;
    const ground = groundOf(element);
    const [high, low] = [luminance(over(parse(style.color), ground)), luminance(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < needed) found.push(`${ratio.toFixed(2)} ${style.color} "${node.textContent.trim().slice(0, 40)}"`);
  }
  return [...new Set(found)];
}

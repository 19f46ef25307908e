// What is seen, as a file: an SVG that is made from the page as it is laid out, and the same as PNG.

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const clear = /^(transparent|rgba\(.*, 0\))$/;

function resolved(element: Element): string {
  const root = getComputedStyle(document.documentElement);
  const text = new XMLSerializer().serializeToString(element);
  return text.replace(/var\((--[a-z]+)\)/g, (_, name) => root.getPropertyValue(name).trim());
}

function box(rect: DOMRect, style: CSSStyleDeclaration, x: number, y: number): string {
  const width = parseFloat(style.borderTopWidth) || 0, lines: string[] = [];
  const fill = clear.test(style.backgroundColor) ? "none" : style.backgroundColor;
  const round = Math.min(parseFloat(style.borderTopLeftRadius) || 0, rect.height / 2);
  const even = width > 0 && style.borderBottomWidth === style.borderTopWidth && style.borderLeftWidth === style.borderTopWidth && style.borderTopStyle !== "none";
  const stroke = even && !clear.test(style.borderTopColor) ? ` stroke="${style.borderTopColor}" stroke-width="${width}"${style.borderTopStyle === "dashed" ? ' stroke-dasharray="4 3"' : ""}` : "";
  if (fill !== "none" || stroke)
    lines.push(`<rect x="${(rect.left - x + width / 2).toFixed(1)}" y="${(rect.top - y + width / 2).toFixed(1)}" width="${Math.max(0, rect.width - width).toFixed(1)}" height="${Math.max(0, rect.height - width).toFixed(1)}" rx="${round.toFixed(1)}" fill="${fill}"${stroke}/>`);
  return lines.join("");
}

/** The words of a text as they stand, those of a line together. */
function words(node: Text, style: CSSStyleDeclaration, x: number, y: number): string {
  const text = node.data, range = document.createRange(), runs: { left: number; right: number; top: number; bottom: number; text: string }[] = [];
  const rightwards = style.direction !== "rtl";
  for (const match of text.matchAll(/\S+/g)) {
    range.setStart(node, match.index); range.setEnd(node, match.index + match[0].length);
    const rect = range.getBoundingClientRect();
    if (!rect.width || !rect.height) continue;
    const last = runs[runs.length - 1];
    if (rightwards && last && Math.abs(last.top - rect.top) < 2 && rect.left >= last.right - 1 && !/[\u0590-\u08ff]/.test(match[0] + last.text)) { last.right = rect.right; last.text += " " + match[0]; }
    else runs.push({ left: rect.left, right: rect.right, top: rect.top, bottom: rect.bottom, text: match[0] });
  }
  const size = parseFloat(style.fontSize);
  return runs.map(run => `<text x="${(run.left - x).toFixed(1)}" y="${((run.top + run.bottom) / 2 - y + size * 0.35).toFixed(1)}" textLength="${(run.right - run.left).toFixed(1)}" lengthAdjust="spacingAndGlyphs" font-family="${escaped(style.fontFamily)}" font-size="${size}" font-weight="${style.fontWeight}" fill="${style.color}"${style.textDecorationLine.includes("line-through") ? ' text-decoration="line-through"' : ""}>${escaped(run.text)}</text>`).join("");
}

function walk(element: Element, x: number, y: number): string {
  if (element instanceof HTMLElement && (element.dataset.unseen !== undefined || element.hidden || element.classList.contains("said"))) return "";
  const style = getComputedStyle(element), rect = element.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || (!rect.width && !rect.height)) return "";
  if (element instanceof SVGSVGElement) {
    const copy = element.cloneNode(true) as SVGSVGElement;
    for (const [name, value] of Object.entries({ x: rect.left - x, y: rect.top - y, width: rect.width, height: rect.height })) copy.setAttribute(name, value.toFixed(1));
    return resolved(copy);
  }
  let out = element instanceof HTMLElement ? box(rect, style, x, y) : "";
  if (element instanceof HTMLCanvasElement || element instanceof HTMLImageElement) {
    const source = element instanceof HTMLCanvasElement ? element.toDataURL() : element.src;
    return out + `<image href="${escaped(source)}" x="${(rect.left - x).toFixed(1)}" y="${(rect.top - y).toFixed(1)}" width="${rect.width.toFixed(1)}" height="${rect.height.toFixed(1)}" preserveAspectRatio="none"${style.imageRendering === "pixelated" ? ' style="image-rendering:pixelated"' : ""}/>`;
  }
  if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement) {
    const value = element instanceof HTMLSelectElement ? element.selectedOptions[0]?.text ?? "" : element.value;
    const size = parseFloat(style.fontSize), lines = element instanceof HTMLInputElement && element.type === "checkbox" ? [element.checked ? "☑" : "☐"] : value.split("\n");
    lines.forEach((line, i) => { out += `<text x="${(rect.left - x + 6).toFixed(1)}" y="${(rect.top - y + size * 1.4 * (i + 1)).toFixed(1)}" font-family="${escaped(style.fontFamily)}" font-size="${size}" fill="${style.color}">${escaped(line)}</text>`; });
    return out;
  }
  for (const child of element.childNodes) {
    if (child instanceof Text) out += words(child, style, x, y);
    else if (child instanceof Element && !(element instanceof HTMLDetailsElement && !element.open && child.tagName !== "SUMMARY")) out += walk(child, x, y);
  }
  return out;
}

/** An element of the page as the text of an SVG file, with its size. */
function drawn(element: HTMLElement): { svg: string; width: number; height: number } {
  element.classList.add("whole-picture");  // nothing is scrolled out of sight
  try { return laid(element); } finally { element.classList.remove("whole-picture"); }
}

function laid(element: HTMLElement): { svg: string; width: number; height: number } {
  const rect = element.getBoundingClientRect(), margin = 16;
  const inside = [...element.querySelectorAll<HTMLElement>(".scroll")].reduce((most, each) => Math.max(most, each.getBoundingClientRect().left + each.scrollWidth - rect.left), rect.width);
  const width = Math.ceil(inside) + 2 * margin, height = Math.ceil(rect.height) + 2 * margin;
  const paper = getComputedStyle(document.body).backgroundColor;
  const content = walk(element, rect.left - margin, rect.top - margin);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><rect width="100%" height="100%" fill="${paper}"/>${content}</svg>`;
  return { svg, width, height };
}

export function save(name: string, content: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export async function savePicture(element: HTMLElement, name: string, kind: "svg" | "png") {
  const { svg, width, height } = drawn(element), file = new Blob([svg], { type: "image/svg+xml" });
  if (kind === "svg") return save(name + ".svg", file);
  const image = new Image(), scale = Math.min(2, 16_000 / Math.max(width, height)), url = URL.createObjectURL(file);
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  save(name + ".png", await new Promise<Blob>(done => canvas.toBlob(blob => done(blob!), "image/png")));
}
